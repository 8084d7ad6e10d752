"""Sizes of jobs by their models: from the table, estimates and past runs."""

from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from tgpu.core.errors import InvalidRequest
from tgpu.core.model.job import Request
from tgpu.core.model.units import GPU, GPU_STEP, gpus_text
from tgpu.core.placement.place import allows_type
from tgpu.core.prediction.model_size import (
    NO_TABLE,
    Size,
    SizeSource,
    SizeTable,
    learned_size,
    model_of,
    size_of,
)
from tgpu.core.state.cluster_state import State
from tgpu.service.commands.submission import SizeBy, Submission
from tgpu.service.forecast.size_table import read_size_table
from tgpu.service.hardware.memory_history import MemoryHistory, ModelPeaks
from tgpu.text.system_words import system_words

_log = structlog.get_logger("gpu_scheduler.sizes")

_ANY_GPU = Request(GPU)


@dataclass(frozen=True, slots=True)
class Sized:
    """What is known of one model's size."""

    model: str
    gpu_mem_mib: int  # of the GPUs it was reckoned for; 0: there are none
    size: Size  # by the table, or reckoned
    peaks: ModelPeaks | None  # of past runs
    learned: Size | None  # what those come to

    @property
    def best(self) -> Size:
        """What `--auto` takes."""
        return self.learned or self.size


class Sizes:
    def __init__(
        self,
        state: State,
        memory_history: MemoryHistory,
        file: Path | None,
        step_millis: int = GPU_STEP,
    ) -> None:
        self._state = state
        self._memory_history = memory_history
        self._file = file
        self._step_millis = step_millis
        self._version: tuple[int, int, int] | None = None
        self._table = NO_TABLE
        self._problems: list[str] = []

    def look(self, model: str, request: Request = _ANY_GPU) -> Sized:
        """What a model needs on the GPUs that a request allows."""
        memory = self._gpu_memory(request)
        size = size_of(model, self.table(), memory, self._step_millis)
        peaks = self._memory_history.of_model(model)
        learned = None
        if peaks is not None:
            learned = learned_size(peaks.highest_mib, peaks.count, memory, self._step_millis)
        return Sized(model, memory, size, peaks, learned)

    def sized(self, submission: Submission) -> tuple[Submission, str]:
        """With the GPUs that its model needs, and a sentence that says so."""
        if submission.size_by is SizeBy.GIVEN:
            return submission, ""
        model = model_of(submission.detail.argv)
        learned = submission.size_by is SizeBy.LEARNED
        if model is None:
            if learned:
                remedy = "the command names no model: it needs --llm or --model, or a gpu_count"
                raise InvalidRequest("size_by", str(submission.size_by), remedy)
            default = self.table().default
            size = Size(default, SizeSource.DEFAULT, ("the command names no model",))
        else:
            found = self.look(model, submission.request)
            size = found.best if learned else found.size
        request, need = submission.request, size.requirement
        request = replace(
            request,
            gpu_millis=need.gpu_millis * request.workers,
            gpu_mem_mib=request.gpu_mem_mib or need.gpu_mem_mib * request.workers,
        )
        return replace(submission, request=request), _sentence(model, size)

    def table(self) -> SizeTable:
        """As the file has it now; one that cannot be read leaves what was."""
        if self._file is None:
            return NO_TABLE
        try:
            found = self._file.stat()
            version = (found.st_mtime_ns, found.st_size, found.st_ino)
            if version != self._version:
                table, problems = read_size_table(self._file.read_bytes())
                if table.models or not problems:
                    self._table = table
                self._version = version
                self._report(problems)
        except FileNotFoundError:
            self._version, self._table, self._problems = None, NO_TABLE, []
        except OSError as error:
            self._report([system_words(error)])
        return self._table

    def problems(self) -> list[str]:
        self.table()
        return [f"model sizes {self._file}: {problem}" for problem in self._problems]

    def _report(self, problems: list[str]) -> None:
        if problems != self._problems:
            for problem in problems:
                _log.warning("the table of model sizes", file=str(self._file), problem=problem)
        self._problems = problems

    def _gpu_memory(self, request: Request) -> int:
        """Of the smallest GPU it may get: what fits there fits on every other."""
        found = [
            gpu
            for use in self._state.ledger.nodes.values()
            for gpu in use.node.gpus
            if allows_type(request, gpu.gpu_type)
            and request.where.allows_gpu(use.node.node_id, gpu.index)
        ]
        healthy = [gpu for gpu in found if gpu.problem is None]
        return min((gpu.mem_mib for gpu in healthy or found), default=0)


def _sentence(model: str | None, size: Size) -> str:
    gpus = gpus_text(size.requirement.gpu_millis)
    of = f" for {model}" if model is not None else ""
    return f"{gpus} GPU{'' if size.requirement.gpu_millis <= GPU else 's'}{of}: {size.steps[-1]}"
