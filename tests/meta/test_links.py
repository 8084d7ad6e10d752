"""Links between documents lead somewhere."""

import re
from pathlib import Path

from tests.meta.repository import DOCS, ROOT, name_of, pages

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """As GitHub makes them from headings."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {word.strip().replace(" ", "-") for word in words}


def broken_links() -> list[str]:
    broken = []
    for page, text in pages().items():
        for link in LINK.findall(FENCE.sub("", text)):
            if "://" in link or link.startswith("mailto:"):
                continue
            file, _, anchor = link.partition("#")
            target = (page.parent / file).resolve() if file else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{name_of(page)}: {link}")
    return broken


def test_every_relative_link_resolves():
    assert broken_links() == []


def test_every_page_of_the_documentation_can_be_reached():
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page, text in pages().items()
        for link in LINK.findall(text)
        if "://" not in link
    }
    lonely = [page for page in pages() if page.is_relative_to(DOCS) and page not in linked]
    assert [name_of(page) for page in lonely if page != ROOT / "docs" / "README.md"] == []
