"""Watches what running jobs do with their GPUs: idle ones, and those that use too much memory.

What a reading means is decided in the core: `idle.py`, `overuse.py`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import structlog
from msgspec.structs import replace

from tgpu.core.hardware.idle import IdleAction, IdleRules, IdleWatch, Rung, climb
from tgpu.core.hardware.overuse import (
    WITHIN,
    OveruseAction,
    OveruseRules,
    OveruseWatch,
    Verdict,
    judge,
    memory_share_mib,
)
from tgpu.core.model import lifecycle
from tgpu.core.model.events import Event, JobMoved
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import JobState, Move, Progress
from tgpu.core.model.node import GpuName, Share
from tgpu.core.model.units import GPU, SECOND
from tgpu.core.state.cluster_state import Entry, State
from tgpu.devices.api import GpuProcess, GpuReading
from tgpu.service.commands.gpu_choice import gpu_word
from tgpu.service.hardware.node_hardware import GpuProcesses, Hardware
from tgpu.service.recording.clock import Clock
from tgpu.service.recording.writer import Decision, Writer
from tgpu.text.durations import whole_text

_log = structlog.get_logger("gpu_scheduler.job_watch")

_Name = tuple[JobId, int]  # a job and the number of its attempt


@dataclass(frozen=True, slots=True)
class WatchRules:
    idle: IdleRules = field(default_factory=IdleRules)
    overuse: OveruseRules = field(default_factory=OveruseRules)


@dataclass(frozen=True, slots=True)
class _Step:
    """What is to be done about one job."""

    job_id: JobId
    attempt: int
    text: str | None  # None: what it was told no longer holds
    action: IdleAction  # WARN: only tell


class _Reading(NamedTuple):
    gpu: GpuReading
    there: GpuProcesses


_Readings = Mapping[GpuName, _Reading]


class JobWatch:
    def __init__(
        self, hardware: Callable[[], Sequence[Hardware]], rules: WatchRules | None = None
    ) -> None:
        """Without `rules` nobody looks. `hardware` of all nodes there are."""
        self._hardware = hardware
        self._rules = rules or WatchRules(IdleRules(window_ms=0), OveruseRules(OveruseAction.OFF))
        self._idle: dict[_Name, IdleWatch] = {}
        self._overuse: dict[_Name, OveruseWatch] = {}
        self._told: dict[_Name, str] = {}
        self.adopted: frozenset[JobId] = frozenset()  # leases whose process was there before them

    async def observe(self, state: State, writer: Writer, clock: Clock) -> None:
        """Go by the newest readings of all nodes."""
        readings = {
            GpuName(hardware.node_id, gpu.index): _Reading(
                gpu, hardware.processes.get(gpu.index, GpuProcesses())
            )
            for hardware in self._hardware()
            for gpu in hardware.fresh_readings()
        }
        if not readings:
            return
        now = clock.steady()
        # One that was told to stand still is not idle; when it goes on, its time begins anew.
        running = [
            entry
            for entry in state.placed()
            if entry.progress.state is JobState.RUNNING and entry.progress.paused_at is None
        ]
        self._forget_all_but({_name(entry) for entry in running})
        steps = [
            step
            for entry in running
            if not entry.progress.stopping
            for step in self._steps(state, entry, readings, now)
        ]
        if steps:
            touched = {step.job_id for step in steps}
            await writer.do(lambda state: self._decide(state, steps, clock.now()), touched)

    def _forget_all_but(self, names: set[_Name]) -> None:
        self._idle = {name: watch for name, watch in self._idle.items() if name in names}
        self._overuse = {name: watch for name, watch in self._overuse.items() if name in names}
        self._told = {name: text for name, text in self._told.items() if name in names}

    def _steps(self, state: State, entry: Entry, readings: _Readings, now: int) -> Iterable[_Step]:
        if any(gpu not in readings for gpu, _ in _shares(entry)):
            return  # what it does there, nobody knows
        over = self._overused(state, entry, readings, now)
        if over is not None:
            yield over
        elif (idle := self._idled(state, entry, readings, now)) is not None:
            yield idle

    # -- memory ----------------------------------------------------------------------------------

    def _overused(self, state: State, entry: Entry, readings: _Readings, now: int) -> _Step | None:
        name, text = _name(entry), None
        for gpu, share in _shares(entry):
            if text is None:
                word = gpu_word(state.ledger, *gpu)
                text = self._beyond(entry, share, readings[gpu], word)
        before = self._overuse.get(name, WITHIN)
        after = self._overuse[name] = judge(before, text is not None, now, self._rules.overuse)
        match after.verdict:
            case Verdict.WARN:
                return _Step(*name, text, IdleAction.WARN)
            case Verdict.END:
                return _Step(*name, text, IdleAction.END)
            case Verdict.FINE if before.verdict is not Verdict.FINE:
                return _Step(*name, None, IdleAction.WARN)
        return None

    def _beyond(self, entry: Entry, share: Share, reading: _Reading, word: str) -> str | None:
        """How a job uses more of one GPU than it was given; None where it does not."""
        given = memory_share_mib(entry.job.request, share, reading.gpu.memory_mib)
        if given is None:
            return None
        used = sum(process.memory_mib or 0 for process in _own(entry, reading))
        if used <= given:
            return None
        return f"uses {used} MiB of GPU {word}'s memory; its share is {given} MiB"

    # -- idleness --------------------------------------------------------------------------------

    def _idled(self, state: State, entry: Entry, readings: _Readings, now: int) -> _Step | None:
        name, action = _name(entry), _action(state, entry)
        window_ms = self._rules.idle.window_ms
        before = self._idle.get(name) or IdleWatch(now)
        percent = self._busiest(entry, readings)
        after = self._idle[name] = climb(before, percent, now, self._rules.idle)
        if after.rung is before.rung:
            return None
        if after.rung is Rung.BUSY:
            return _Step(*name, None, IdleAction.WARN)
        gpus = ", ".join(gpu_word(state.ledger, *gpu) for gpu, _ in _shares(entry))
        idle_text = whole_text(window_ms * int(after.rung) / SECOND)
        text = f"idle: GPU {gpus} was idle for {idle_text}"
        if after.rung is Rung.DUE:
            return None if action is IdleAction.WARN else _Step(*name, text, action)
        if after.rung is Rung.WARNED and action is not IdleAction.WARN:
            fate = "put on hold" if action is IdleAction.HOLD else "ended"
            text += f"; it will be {fate} in {whole_text(window_ms / SECOND)}"
        return _Step(*name, text, IdleAction.WARN)

    def _busiest(self, entry: Entry, readings: _Readings) -> int | None:
        percents = [self._percent(entry, share, readings[gpu]) for gpu, share in _shares(entry)]
        return max((percent for percent in percents if percent is not None), default=None)

    def _percent(self, entry: Entry, share: Share, reading: _Reading) -> int | None:
        if share.millis < GPU:  # a neighbour's load is not this job's
            own = [process.sm_percent for process in _own(entry, reading)]
            told = [percent for percent in own if percent is not None]
            if told:
                return min(100, sum(told))
        return reading.gpu.utilisation_percent

    # -- what follows ----------------------------------------------------------------------------

    def _decide(self, state: State, steps: Sequence[_Step], now: int) -> Decision[None]:
        events: list[Event] = []
        for step in steps:
            entry = state.entry(step.job_id)
            if entry is None or _name(entry) != (step.job_id, step.attempt):
                continue
            if entry.progress.stopping or entry.progress.state is not JobState.RUNNING:
                continue
            move = self._move(entry, step, now)
            if move is not None:
                events.append(move)
        return Decision(None, events)

    def _move(self, entry: Entry, step: _Step, now: int) -> JobMoved | None:
        job_id, progress = entry.job.job_id, entry.progress
        if step.action is IdleAction.WARN or step.text is None:
            return self._tell(entry, step.text, now)
        _log.warning("ending a job", job_id=job_id, cause=step.text)
        back = step.action is IdleAction.HOLD and job_id not in self.adopted
        if entry.job.options.lease:
            if back:
                again = lifecycle.requeue(job_id, progress, now, step.text, counts=False, at=now)
                return JobMoved(now, job_id, Move.REQUEUE, replace(again, held=True))
            ended = lifecycle.end(job_id, progress, JobState.CANCELLED, now, cause=step.text)
            return JobMoved(now, job_id, Move.CANCEL, ended)
        ask = lifecycle.put_back if back else lifecycle.stop
        return JobMoved(now, job_id, Move.STOP, ask(job_id, progress, step.text))

    def _tell(self, entry: Entry, text: str | None, now: int) -> JobMoved | None:
        job_id, progress, name = entry.job.job_id, entry.progress, _name(entry)
        told = self._told.pop(name, None)
        if text is not None:
            self._told[name] = text
            _log.warning("a job misuses its GPUs", job_id=job_id, problem=text)
        elif told is None or progress.cause != told:
            return None  # there is nothing of ours to take back
        noted: Progress = lifecycle.note(job_id, progress, text)
        return JobMoved(now, job_id, Move.NOTE, noted)


def _name(entry: Entry) -> _Name:
    return entry.job.job_id, entry.progress.attempt


def _shares(entry: Entry) -> list[tuple[GpuName, Share]]:
    """On all its nodes."""
    placement = entry.progress.placement
    parts = placement.parts() if placement is not None else ()
    return [(GpuName(node_id, s.gpu_index), s) for node_id, shares in parts for s in shares]


def _own(entry: Entry, reading: _Reading) -> list[GpuProcess]:
    name, claimed = _name(entry), reading.there.claimed
    return [
        process
        for process in reading.gpu.processes
        if (claim := claimed.get(process.pid)) is not None
        and claim.key is not None
        and (claim.key.job_id, claim.key.attempt) == name
    ]


def _action(state: State, entry: Entry) -> IdleAction:
    use = state.ledger.queues.get((entry.job.tenant_id, entry.job.queue))
    try:
        return IdleAction(use.queue.idle_action) if use is not None else IdleAction.WARN
    except ValueError:  # a word of a later version
        return IdleAction.WARN
