"""What search shows first: pages about errors, and last those about the inside."""

BOOSTS = {"messages": 3, "troubleshooting": 3, "architecture": 0.2, "decisions": 0.2, "log": 0.2, "families": 0.2}


def on_page_markdown(markdown, page, **_):
    name = page.file.src_uri.removesuffix(".md").removesuffix(".zh")
    if name in BOOSTS:
        page.meta["search"] = {"boost": BOOSTS[name]}
    return markdown
