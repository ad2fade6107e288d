"""Join the lines of a Chinese paragraph: between Chinese characters a line's end is no blank."""

import re

CHINESE, STOP = "\u3000-\u303f\u4e00-\u9fff\uff00-\uffef“”", "，。；：、！？）”"
BETWEEN = re.compile(
    rf"(?<=[{CHINESE}])\n *(?=[{CHINESE}])|(?<=[{STOP}])\n *(?=[\w(\[`])(?!\d+\.|```)|(?<=\S)\n *(?=[{STOP}（“])"
)
CODE = re.compile(r"(```.*?```)", re.DOTALL)


def on_page_markdown(markdown, page, **_):
    if not page.file.src_uri.endswith(".zh.md"):
        return markdown
    parts = CODE.split(markdown)
    return "".join(part if CODE.match(part) else BETWEEN.sub("", part) for part in parts)
