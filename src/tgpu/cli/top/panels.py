"""The pieces of the screen: tables that change only where something changed, and a question."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen
from textual.widgets import DataTable, Static

from tgpu.cli.top.rows import Cells


class Rows(DataTable[Text]):
    """A table of named rows. The cursor stays on its row while others come and go."""

    def __init__(self, columns: Sequence[str], *, id: str) -> None:
        super().__init__(id=id, cursor_type="row", zebra_stripes=False)
        self._titles = tuple(columns)
        self._shown: list[tuple[str, Cells]] = []

    def on_mount(self) -> None:
        self.add_columns(*self._titles)

    @property
    def chosen(self) -> str | None:
        """The name of the row under the cursor."""
        if not self._shown:
            return None
        return self._shown[min(self.cursor_row, len(self._shown) - 1)][0]

    def fill(self, rows: Sequence[tuple[str, Cells]]) -> None:
        before, names = self._shown, [name for name, _ in rows]
        chosen = self.chosen
        self._shown = list(rows)
        if names == [name for name, _ in before]:
            self._change(before)
            return
        top, row = self.scroll_offset.y, self.cursor_row
        self.clear()
        for name, cells in rows:
            self.add_row(*cells, key=name)
        if chosen in names:
            row = names.index(chosen)
        self.move_cursor(row=min(row, len(rows) - 1), animate=False, scroll=False)
        self.scroll_to(y=top, animate=False)

    def _change(self, before: Sequence[tuple[str, Cells]]) -> None:
        for (name, old), (_, new) in zip(before, self._shown, strict=True):
            for position, column in enumerate(self.ordered_columns):
                if old[position] != new[position]:
                    self.update_cell(name, column.key, new[position], update_width=True)


class Ask(ModalScreen[bool]):
    """A question that y answers with yes; all other ways out are no."""

    CSS = """
    Ask { align: center middle; }
    Ask Static { width: auto; max-width: 70; padding: 1 2; }
    Ask Static { border: round $warning; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("y", "dismiss(True)", "Yes"),
        ("n,escape,enter,q", "dismiss(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        yield Static(Text(f"{self._question}  y / n"))
