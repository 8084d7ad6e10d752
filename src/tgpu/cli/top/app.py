"""The screen of `tgpu top`: polls the service, and turns keys into commands.

Requests run in a thread, one look at a time, so that a slow connection never holds up a key.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static

from tgpu.cli import environment
from tgpu.cli.render.folded import id_text, progress_of, target
from tgpu.cli.render.gpus import shown_names
from tgpu.cli.top import changes
from tgpu.cli.top.panels import ConfirmationScreen, Help, NamedRows
from tgpu.cli.top.rows import (
    below,
    below_title,
    gpu_table,
    job_table,
    matches,
    row_name,
    summary,
)
from tgpu.cli.top.source import ScreenReading, ScreenWish, look
from tgpu.client.errors import ClientError
from tgpu.client.http import Client
from tgpu.wire.v1 import GpuModel, JobModel


class Top(App[None]):
    """`first` is shown at once; from then on there is a look every `seconds`."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #summary { height: 1; background: $primary; color: $text; text-style: bold; }
    #summary.lost { background: $error; }
    #gpus { height: auto; max-height: 9; }
    #jobs { height: 1fr; min-height: 4; }
    #title { height: 1; color: $text-muted; }
    #log { height: 25%; min-height: 4; }
    #filter { height: 1; border: none; padding: 0 1; display: none; }
    #filter.open { display: block; }
    DataTable { scrollbar-size: 1 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("x", "expand", "Expand"),
        Binding("escape", "all", "All", show=False),
        Binding("c", "cancel", "Cancel"),
        Binding("h", "hold", "Hold"),
        Binding("q", "quit", "Quit"),
        Binding("plus,equals_sign", "rerank(1)", "Raise", key_display="+"),
        Binding("minus", "rerank(-1)", "Lower", key_display="-"),
        Binding("p", "pause", "Pause GPU"),
        Binding("e", "stream", "Stderr"),
        Binding("n", "turn(1)", "Next", show=False),
        Binding("b", "turn(-1)", "Back", show=False),
        Binding("r", "refresh", "Refresh", show=False),
    ]

    def __init__(self, client: Client, seconds: float, first: ScreenReading) -> None:
        super().__init__()
        self._client = client
        self._seconds = seconds
        self._look = first
        self._stream = "stdout"
        self._asked: str | None = None  # the row that was asked for last
        self._filter = ""  # words that rows must have
        self._array: JobModel | None = None  # whose elements are shown
        self._cursors: list[int] = []  # of the pages behind the first, up to the one shown
        self.is_looking = False
        self._look_again = False

    def compose(self) -> ComposeResult:
        yield Static(id="summary")
        yield NamedRows(id="gpus")
        yield NamedRows(id="jobs")
        yield Static(id="title")
        yield Static(id="log")
        yield Input(id="filter", placeholder="words of id, name, user, tenant or state")
        yield Footer()

    def on_mount(self) -> None:
        self.theme = "textual-dark"
        self._jobs.focus()
        self._show()
        self.action_refresh()
        self.set_interval(self._seconds, self.action_refresh)

    # -- looking -----------------------------------------------------------------------------------

    def action_refresh(self) -> None:
        if self.is_looking:
            self._look_again = True  # what is asked for now may not be in the answer under way
            return
        self.is_looking = True
        self._asked = self._jobs.chosen
        job, array = self._chosen_job, self._array
        self._take_a_look(
            ScreenWish(
                self._cursor,
                None if job is None else job.job_id,
                self._stream,
                None if array is None else target(array),
                bool(self._filter),
            )
        )

    @work(thread=True)
    def _take_a_look(self, wish: ScreenWish) -> None:
        try:
            found: ScreenReading | ClientError = look(self._client, wish)
        except ClientError as error:
            found = error
        self.call_from_thread(self._looked, found, wish)

    def _looked(self, found: ScreenReading | ClientError, wish: ScreenWish) -> None:
        self.is_looking = False
        again, self._look_again = self._look_again, False
        if isinstance(found, ClientError):
            self._say_lost(found)
            return
        array = None if self._array is None else target(self._array)
        if (wish.cursor, wish.array_id) == (self._cursor, array):
            self._look = found
            self._show()
        if again or self._asked != self._jobs.chosen:
            self.action_refresh()

    def _show(self) -> None:
        now = environment.now_ms()
        line = self.query_one("#summary", Static)
        line.remove_class("lost")
        line.update(
            Text(summary(self._look, len(self._cursors), self._chosen_part()), no_wrap=True)
        )
        self._gpus.fill(gpu_table(self._look.gpus.gpus))
        # A cell has a column of space on both sides, and the table a scroll bar.
        self._jobs.fill(job_table(self._shown_jobs, now, max(40, self.size.width - 3)))
        job = self._chosen_job
        self.query_one("#title", Static).update(Text(below_title(job, self._stream)))
        panel = self.query_one("#log", Static)
        width, height = panel.size.width or 80, panel.size.height or 4
        panel.update(Text(below(self._look, job, now, (width, height)), no_wrap=True))

    def _say_lost(self, error: ClientError) -> None:
        line = self.query_one("#summary", Static)
        line.add_class("lost")
        line.update(Text(f"{error.message}; showing the last known state", no_wrap=True))

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        # A table that is filled anew says so too; only another job needs another look.
        if event.data_table.id == "jobs" and self._jobs.chosen != self._asked:
            self.action_refresh()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        if event.data_table.id == "jobs":
            self.action_expand()

    def on_resize(self) -> None:
        if self.query("#jobs"):  # the first size comes before there is anything
            self._show()

    # -- which jobs --------------------------------------------------------------------------------

    def action_help(self) -> None:
        self.push_screen(Help())

    def action_filter(self) -> None:
        line = self.query_one("#filter", Input)
        line.add_class("open")
        line.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter = event.value.strip()
        self._show()
        self.action_refresh()

    def on_input_submitted(self, _: Input.Submitted) -> None:
        self._close_filter()

    def action_all(self) -> None:
        self.query_one("#filter", Input).value = ""
        self._close_filter()
        if self._array is not None:
            self._array = None
            self._other_rows()

    def action_expand(self) -> None:
        job = self._chosen_job
        if self._array is not None:
            self._array = None
        elif job is not None and progress_of(job) is not None:
            self._array = job
        else:
            self.notify("only an array or a sweep has elements", markup=False)
            return
        self._other_rows()

    def _other_rows(self) -> None:
        self._cursors.clear()
        self._look = replace(self._look, running=(), waiting=(), next_cursor=None)
        self._show()
        self.action_refresh()

    def _close_filter(self) -> None:
        self.query_one("#filter", Input).remove_class("open")
        self._jobs.focus()

    def _chosen_part(self) -> str:
        parts = [f"elements of {id_text(self._array)}"] if self._array is not None else []
        return " · ".join([*parts, *([f"/{self._filter}"] if self._filter else [])])

    # -- keys --------------------------------------------------------------------------------------

    def action_cancel(self) -> None:
        job = self._chosen_job
        if job is not None:
            self._ask(changes.cancel_question(job), lambda: changes.cancel(self._client, job))

    def action_hold(self) -> None:
        job = self._chosen_job
        if job is not None:
            self._do(lambda: changes.hold(self._client, job))

    def action_rerank(self, by: int) -> None:
        job = self._chosen_job
        if job is not None:
            self._do(lambda: changes.rerank(self._client, job, by))

    def action_pause(self) -> None:
        chosen = self._chosen_gpu
        if chosen is not None:
            gpu, name = chosen
            question = changes.pause_question(gpu, name)
            self._ask(question, lambda: changes.pause(self._client, gpu, name))

    def action_stream(self) -> None:
        self._stream = "stderr" if self._stream == "stdout" else "stdout"
        self.action_refresh()

    def action_turn(self, by: int) -> None:
        if by < 0 and self._cursors:
            self._cursors.pop()
        elif by > 0 and self._look.next_cursor is not None:
            self._cursors.append(self._look.next_cursor)
        self.action_refresh()

    def _ask(self, question: str, change: Callable[[], str]) -> None:
        def answered(is_yes: bool | None) -> None:
            if is_yes:
                self._do(change)

        self.push_screen(ConfirmationScreen(question), answered)

    @work(thread=True)
    def _do(self, change: Callable[[], str]) -> None:
        try:
            said, severity = change(), "information"
        except ClientError as error:
            said, severity = error.message, "error"
        self.call_from_thread(self._done, said, severity == "error")

    def _done(self, said: str, is_error: bool) -> None:
        self.notify(said, severity="error" if is_error else "information", markup=False)
        self.action_refresh()

    # -- what is chosen ----------------------------------------------------------------------------

    @property
    def _cursor(self) -> int | None:
        return self._cursors[-1] if self._cursors else None

    @property
    def _gpus(self) -> NamedRows:
        return self.query_one("#gpus", NamedRows)

    @property
    def _jobs(self) -> NamedRows:
        return self.query_one("#jobs", NamedRows)

    @property
    def _shown_jobs(self) -> list[JobModel]:
        return [job for job in self._look.jobs if matches(job, self._filter)]

    @property
    def _chosen_job(self) -> JobModel | None:
        chosen = self._jobs.chosen
        return next((job for job in self._look.jobs if row_name(job) == chosen), None)

    @property
    def _chosen_gpu(self) -> tuple[GpuModel, str] | None:
        """And what it is called."""
        gpus, chosen = self._look.gpus.gpus, self._gpus.chosen
        named = zip(gpus, shown_names(gpus), strict=True)
        return next((both for both in named if both[1] == chosen), None)
