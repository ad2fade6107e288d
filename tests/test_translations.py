"""Each page for users has a Chinese translation with the same sections, code, rows, links, names and figures."""

import re
from collections import Counter

import pytest
import yaml
from markdown.extensions.toc import slugify

from tests.harness import REPOSITORY

DOCS = REPOSITORY / "docs"
CODE = re.compile(r"(?ms)^```\w*\n.*?^```$")
HEADING = re.compile(r"(?m)^(?P<level>#{2,6}) (?P<text>.*?)(?: \{ #(?P<id>[\w-]+) \})?$")
IN_EACH_SECTION = {
    "paragraphs": re.compile(r"\n\n()(?=[^\n|#<-])"),
    "table rows": re.compile(r"(?m)^\|(?=.*\|$)"),
    "list items": re.compile(r"(?m)^(-|\d+\.) "),
    "links": re.compile(r"\]\(([^)]+)\)"),
    "names in code": re.compile(r"`([^`]+)`"),
    "figures": re.compile(r"(?a)(?<![\w.,])(\d+[.,][\d.,]*\d|\d{3,})(?![\w.,]\d)"),
}
COMMENT = re.compile(r"(?m) *# .*$")
TEXT = re.compile(r'"[^"\n]*"')
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def pages_of(entries):
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            yield from pages_of(*entry.values())


ENGLISH_ALONE = {"architecture.md", "decisions.md"}  # for who changes the code
PAGES = [
    page
    for page in pages_of(yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())["nav"])
    if page not in ENGLISH_ALONE
]


@pytest.mark.parametrize("page", PAGES)
def test_the_translation_keeps_up(page):
    translation = (DOCS / page).with_suffix(".zh.md")
    assert translation.exists(), f"docs/{page} has no translation {translation.name}"
    differences = compare((DOCS / page).read_text(encoding="utf-8"), translation.read_text(encoding="utf-8"))
    assert not differences, f"{translation.relative_to(REPOSITORY)} is not as docs/{page}:\n" + "\n".join(differences)


def compare(english: str, chinese: str) -> list[str]:
    """What one page has and the other has not."""
    differences = [
        f"block of code {number}, English:\n{ours}\nChinese:\n{theirs}"
        for number, (ours, theirs) in enumerate(zip(CODE.findall(english), CODE.findall(chinese)), 1)
        if without_words(ours, theirs) != without_words(theirs, theirs)
    ]
    if len(CODE.findall(english)) != len(CODE.findall(chinese)):
        differences.append("another number of blocks of code")
    ours, theirs = sections(english), sections(chinese)
    if missing := [name for name in ours if name not in theirs]:
        differences.append(f"sections missing: {', '.join(missing)}")
    if list(theirs) != [name for name in ours if name in theirs]:
        differences.append(f"other sections, or another order: {', '.join(theirs)}")
    for name in [name for name in ours if name in theirs]:
        for what in IN_EACH_SECTION:
            if lacks := ours[name][what] - theirs[name][what]:
                differences.append(f"section {name}, {what} missing: {dict(lacks)}")
            if more := theirs[name][what] - ours[name][what]:
                differences.append(f"section {name}, {what} only there: {dict(more)}")
    return differences


def without_words(block: str, translated: str) -> str:
    """A block without comments, and without texts if the translation has them in Chinese."""
    bare, bare_translated = COMMENT.sub("", block), COMMENT.sub("", translated)
    return TEXT.sub('""', bare) if CHINESE.search(bare_translated) else bare


def sections(page: str) -> dict[str, dict[str, Counter]]:
    """What each section has, by the level and the id of its heading."""
    prose = CODE.sub("", page)
    headings = list(HEADING.finditer(prose))
    begins = [0, *(heading.end() for heading in headings)]
    ends = [*(heading.start() for heading in headings), len(prose)]
    names = ["at the top", *(f"{heading['level']} {id_of(heading)}" for heading in headings)]
    return {name: contents(prose[begin:end]) for name, begin, end in zip(names, begins, ends)}


def id_of(heading: re.Match) -> str:
    return heading["id"] or slugify(heading["text"].replace("`", ""), "-")


def contents(section: str) -> dict[str, Counter]:
    found = {what: pattern.findall(section) for what, pattern in IN_EACH_SECTION.items()}
    found["names in code"] = [re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "<>", name)) for name in found["names in code"]]
    found["list items"] = [item.strip("0123456789") for item in found["list items"]]
    return {what: Counter(items) for what, items in found.items()}
