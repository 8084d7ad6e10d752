"""What docs/explanation/threats.md says is defended has a test; what has none is said not to be."""

import re

import pytest

from tests.meta.repository import DOCS, ROOT

PAGE = DOCS / "explanation" / "threats.md"
SET_UPS = ("Personal", "Shared box", "Team server", "Gateway")
HEADERS = (
    "| who | could try | what stops it | test |",
    "| what | could happen | what stops it | test |",
)
LINK = re.compile(r"\[(test_\w+)\]\(\.\./\.\./(tests/[\w/]+\.py)\)")


def rows() -> list[tuple[str, list[str]]]:
    """The rows of its tables of threats, with the heading that each stands below."""
    found: list[tuple[str, list[str]]] = []
    heading, is_table = "", False
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        if not line.startswith("|"):
            is_table = False
        elif line in HEADERS:
            is_table = True
        elif is_table and not line.startswith("|--"):
            found.append((heading, [cell.strip() for cell in line.strip("|").split("|")]))
    return found


ROWS = rows()


@pytest.mark.parametrize("set_up", SET_UPS)
def test_every_set_up_has_its_threats_and_what_is_not_defended(set_up: str) -> None:
    text = PAGE.read_text()
    assert [heading for heading, _ in ROWS if heading.startswith(set_up)]
    section = text.split(f"\n## {set_up}", 1)[1].split("\n## ", 1)[0]
    assert "**Trusted.**" in section
    assert "**Not defended.**" in section


@pytest.mark.parametrize("row", ROWS, ids=[cells[1][:60] for _, cells in ROWS])
def test_every_threat_has_a_test_that_exists(row: tuple[str, list[str]]) -> None:
    heading, cells = row
    assert len(cells) == 4, heading
    links = LINK.findall(cells[3])
    assert links, f"{cells[1]}: name a test"
    for name, path in links:
        assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), name
