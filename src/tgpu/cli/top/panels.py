"""The widgets of the screen: tables that update only what changed, and a question."""

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import DataTable, Static

from tgpu.cli.top.rows import NamedRow, ScreenTable


class NamedRows(DataTable[Text]):
    """A table of named rows. The cursor stays on its row while others come and go."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, cursor_type="row", zebra_stripes=False)
        self._titles: tuple[str, ...] = ()
        self._shown: list[NamedRow] = []

    @property
    def chosen(self) -> str | None:
        """The name of the row under the cursor."""
        if not self._shown:
            return None
        return self._shown[min(self.cursor_row, len(self._shown) - 1)][0]

    def fill(self, table: ScreenTable) -> None:
        rows = table.rows
        before, names = self._shown, [name for name, _ in rows]
        chosen = self.chosen
        self._shown = list(rows)
        is_same = table.titles == self._titles
        if is_same and names == [name for name, _ in before]:
            self._change(before)
            return
        top, row = self.scroll_offset.y, self.cursor_row
        self.clear(columns=not is_same)
        if not is_same:
            self._titles = table.titles
            self.add_columns(*table.titles)
        for name, cells in rows:
            self.add_row(*cells, key=name)
        if chosen in names:
            row = names.index(chosen)
        self.move_cursor(row=min(row, len(rows) - 1), animate=False, scroll=False)
        self.scroll_to(y=top, animate=False)

    def _change(self, before: Sequence[NamedRow]) -> None:
        for (name, old), (_, new) in zip(before, self._shown, strict=True):
            for position, column in enumerate(self.ordered_columns):
                if old[position] != new[position]:
                    self.update_cell(name, column.key, new[position], update_width=True)


class ConfirmationScreen(ModalScreen[bool]):
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


class Help(ModalScreen[None]):
    """All keys. Any key closes it."""

    CSS = """
    Help { align: center middle; }
    Help Static { width: auto; max-width: 76; max-height: 100%; padding: 0 2; }
    Help Static { border: round $primary; background: $panel; }
    """

    def compose(self) -> ComposeResult:
        wide = max(len(key) for key, _ in KEYS)
        lines = [f"{key:<{wide}}  {what}" for key, what in KEYS]
        yield Static(Text("\n".join([*lines, "", "any key closes this"])))

    def on_key(self, event: Key) -> None:
        event.stop()
        self.dismiss()


KEYS: Final = (
    ("arrows, Tab", "choose a job; go to the GPUs and back"),
    ("/", "show what matches: words of id, name, user, tenant, state"),
    ("x, Enter", "all elements of the chosen array or sweep, and back"),
    ("Escape", "show all jobs again"),
    ("c", "cancel the chosen job or array, after a question"),
    ("h", "hold what waits, or release what is held"),
    ("+  -", "raise or lower the priority of what waits by 100"),
    ("p", "pause the chosen GPU, or use it again, after a question"),
    ("e", "standard output or errors below"),
    ("n  b", "next page of waiting jobs, and back"),
    ("r  q", "look now; quit"),
)
