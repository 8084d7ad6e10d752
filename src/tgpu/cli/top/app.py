"""The screen of `tgpu top`: looks at the service now and then, and turns keys into its commands.

Requests run in a thread, one look at a time, so that a slow connection never holds up a key.
"""

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Static

from tgpu.cli import environment
from tgpu.cli.render.jobs import action_line
from tgpu.cli.top.panels import Ask, Rows
from tgpu.cli.top.rows import (
    GPU_COLUMNS,
    JOB_COLUMNS,
    below,
    below_title,
    gpu_cells,
    job_cells,
    summary,
)
from tgpu.cli.top.source import Look, Wish, look
from tgpu.client.errors import ClientError
from tgpu.client.http import Client
from tgpu.wire.v1 import GpuModel, JobModel

_PAUSE_REASON = "paused in tgpu top"
_PRIORITY_STEP = 100  # a fifth of the way from a normal tenant to a high one


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
    DataTable { scrollbar-size: 1 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("c", "cancel", "Cancel"),
        Binding("h", "hold", "Hold"),
        Binding("plus,equals_sign", "rerank(1)", "Raise", key_display="+"),
        Binding("minus", "rerank(-1)", "Lower", key_display="-"),
        Binding("p", "pause", "Pause GPU"),
        Binding("e", "stream", "Stderr"),
        Binding("n", "turn(1)", "Next"),
        Binding("b", "turn(-1)", "Back"),
        Binding("r", "refresh", "Refresh", show=False),
    ]

    def __init__(self, client: Client, seconds: float, first: Look) -> None:
        super().__init__()
        self._client = client
        self._seconds = seconds
        self._look = first
        self._stream = "stdout"
        self._asked: str | None = None  # the job that was asked for last
        self._cursors: list[int] = []  # of the pages behind the first, up to the one shown
        self.is_looking = False
        self._look_again = False

    def compose(self) -> ComposeResult:
        yield Static(id="summary")
        yield Rows(GPU_COLUMNS, id="gpus")
        yield Rows(JOB_COLUMNS, id="jobs")
        yield Static(id="title")
        yield Static(id="log")
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
        self._asked = self._chosen_id
        self._take_a_look(Wish(self._cursor, self._chosen_id, self._stream))

    @work(thread=True)
    def _take_a_look(self, wish: Wish) -> None:
        try:
            found: Look | ClientError = look(self._client, wish)
        except ClientError as error:
            found = error
        self.call_from_thread(self._looked, found, wish)

    def _looked(self, found: Look | ClientError, wish: Wish) -> None:
        self.is_looking = False
        again, self._look_again = self._look_again, False
        if isinstance(found, ClientError):
            self._say_lost(found)
            return
        if wish.cursor == self._cursor:
            self._look = found
            self._show()
        if again or wish.chosen != self._chosen_id:
            self.action_refresh()

    def _show(self) -> None:
        now = environment.now_ms()
        line = self.query_one("#summary", Static)
        line.remove_class("lost")
        line.update(Text(summary(self._look, len(self._cursors)), no_wrap=True))
        self._gpus.fill([(str(gpu.index), gpu_cells(gpu)) for gpu in self._look.gpus.gpus])
        self._jobs.fill([(job.job_id, job_cells(job, now)) for job in self._look.jobs])
        job = self._chosen_job
        self.query_one("#title", Static).update(Text(below_title(job, self._stream)))
        panel = self.query_one("#log", Static)
        width, height = panel.size.width or 80, panel.size.height or 4
        panel.update(Text(below(self._look, job, now, (width, height)), no_wrap=True))

    def _say_lost(self, error: ClientError) -> None:
        line = self.query_one("#summary", Static)
        line.add_class("lost")
        line.update(Text(f"{error.message}; this is how it was before", no_wrap=True))

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        # A table that is filled anew says so too; only another job needs another look.
        if event.data_table.id == "jobs" and self._chosen_id != self._asked:
            self.action_refresh()

    # -- keys --------------------------------------------------------------------------------------

    def action_cancel(self) -> None:
        job = self._chosen_job
        if job is not None:
            name = job.job_id
            self._ask(f"Cancel job {name}?", lambda: action_line(self._client.cancel_job(name)))

    def action_hold(self) -> None:
        job = self._chosen_job
        if job is None:
            return
        change = self._client.release_job if job.held else self._client.hold_job
        self._do(lambda: action_line(change(job.job_id)))

    def action_rerank(self, by: int) -> None:
        job = self._chosen_job
        if job is None:
            return
        priority = job.priority + by * _PRIORITY_STEP
        self._do(lambda: action_line(self._client.rerank_job(job.job_id, priority)))

    def action_pause(self) -> None:
        gpu = self._chosen_gpu
        if gpu is None:
            return
        if gpu.paused:
            self._ask(f"Let jobs start on GPU {gpu.index} again?", lambda: self._resume(gpu))
        else:
            self._ask(f"Start no further jobs on GPU {gpu.index}?", lambda: self._pause(gpu))

    def action_stream(self) -> None:
        self._stream = "stderr" if self._stream == "stdout" else "stdout"
        self.action_refresh()

    def action_turn(self, by: int) -> None:
        if by < 0 and self._cursors:
            self._cursors.pop()
        elif by > 0 and self._look.next_cursor is not None:
            self._cursors.append(self._look.next_cursor)
        self.action_refresh()

    def _pause(self, gpu: GpuModel) -> str:
        return f"GPU {self._client.pause_gpu(gpu.index, _PAUSE_REASON).index} is paused"

    def _resume(self, gpu: GpuModel) -> str:
        return f"GPU {self._client.resume_gpu(gpu.index).index} takes jobs again"

    def _ask(self, question: str, change: Callable[[], str]) -> None:
        def answered(is_yes: bool | None) -> None:
            if is_yes:
                self._do(change)

        self.push_screen(Ask(question), answered)

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
    def _gpus(self) -> Rows:
        return self.query_one("#gpus", Rows)

    @property
    def _jobs(self) -> Rows:
        return self.query_one("#jobs", Rows)

    @property
    def _chosen_id(self) -> str | None:
        return self._jobs.chosen

    @property
    def _chosen_job(self) -> JobModel | None:
        return next((job for job in self._look.jobs if job.job_id == self._chosen_id), None)

    @property
    def _chosen_gpu(self) -> GpuModel | None:
        chosen = self._gpus.chosen
        return next((gpu for gpu in self._look.gpus.gpus if str(gpu.index) == chosen), None)
