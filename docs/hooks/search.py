"""Search finds pages in the reader's language, those about errors before others, and last those about the inside."""

import json
import re
from pathlib import Path

from mkdocs.plugins import event_priority

BOOSTS = {
    **{"messages": 2, "troubleshooting": 2.2, "recipes": 2},
    **{"guide/losses": 1.5, "guide/from-one-device-to-two": 1.6},
    **{"index": 0.5, "architecture": 0.2, "decisions": 0.2, "families": 0.2},
}
TRANSLATION = "zh/"
INDEX = Path("search", "search_index.json")
CONFIGURATION = re.compile(r'(?<=<script id="__config" type="application/json">)([^<]*)')


def on_page_markdown(markdown, page, **_):
    name = page.file.src_uri.removesuffix(".md").removesuffix(".zh")
    if name in BOOSTS:
        page.meta["search"] = {"boost": BOOSTS[name]}
    return markdown


def on_post_page(output, page, **_):
    """The theme looks for the index below ``base``: for a translated page that is the translation's folder."""
    if not page.url.startswith(TRANSLATION):
        return output
    before, settings, after = CONFIGURATION.split(output, maxsplit=1)
    settings = json.loads(settings)
    settings["base"] = settings["base"].removeprefix("..").removeprefix("/") or "."
    return before + json.dumps(settings) + after


@event_priority(-100)  # after the plugins that write the index
def on_post_build(config, **_):
    """The one index becomes one for each language."""
    site = Path(config.site_dir)
    index = json.loads((site / INDEX).read_text(encoding="utf-8"))
    translated = [entry for entry in index["docs"] if entry["location"].startswith(TRANSLATION)]
    ours = [entry for entry in index["docs"] if not entry["location"].startswith(TRANSLATION)]
    for entry in translated:
        entry["location"] = entry["location"].removeprefix(TRANSLATION)
    (site / TRANSLATION / INDEX.parent).mkdir(parents=True, exist_ok=True)
    for folder, entries in ((site, ours), (site / TRANSLATION, translated)):
        (folder / INDEX).write_text(json.dumps({**index, "docs": entries}, ensure_ascii=False), encoding="utf-8")
