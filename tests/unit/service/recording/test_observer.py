"""Those who watch are told everything, and can harm nothing."""

import asyncio

import pytest
from structlog.testing import capture_logs

from tests.builders import a_job, a_state
from tests.unit.service.world import FailingStore
from tgpu.breaker import BreakerState
from tgpu.core.model.events import JobsSubmitted
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.plan import Plan
from tgpu.core.projection.estimate import Announced
from tgpu.core.state.cluster_state import State
from tgpu.devices.api import Snapshot
from tgpu.log import request_id
from tgpu.service.recording.observer import Observer, Observers
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.memory import MemoryStore

CALLS: dict[str, tuple[object, ...]] = {
    "opening": (State(),),
    "committed": ([], [], 0.1, []),
    "commit_failed": ("disk full",),
    "breaker_changed": ("store", BreakerState.OPEN),
    "cycled": (Plan(), 0.1),
    "clock_stepped": (5_000,),
    "measured": (NodeId("n0"), Snapshot("simulated", ())),
    "budget_reached": (TenantId("t"), 80),
    "start_scored": (Announced(JobId("j"), TenantId("t"), "default", 0, 1, 2, 3),),
}


class Recorder(Observer):
    def __init__(self) -> None:
        self.told: list[tuple[str, tuple[object, ...]]] = []

    def __getattribute__(self, name):
        if name not in CALLS:
            return super().__getattribute__(name)
        return lambda *arguments: self.told.append((name, arguments))


class Broken(Observer):
    def __getattribute__(self, name):
        if name not in CALLS:
            return super().__getattribute__(name)
        raise RuntimeError("a bug of the observer")


def test_the_calls_listed_here_are_all_there_are():
    assert {name for name in vars(Observer) if not name.startswith("_")} == CALLS.keys()


@pytest.mark.parametrize(("name", "arguments"), CALLS.items())
def test_every_observer_is_told_though_one_fails(name, arguments):
    recorder = Recorder()
    with capture_logs() as lines:
        getattr(Observers([Broken(), recorder]), name)(*arguments)
    assert recorder.told == [(name, arguments)]
    assert [(line["log_level"], line["observer"]) for line in lines] == [("error", "Broken")]


@pytest.mark.parametrize(("name", "arguments"), CALLS.items())
def test_an_observer_that_overrides_nothing_does_nothing(name, arguments):
    assert getattr(Observer(), name)(*arguments) is None


async def serve(writer: Writer, decide) -> None:
    """One command, through a writer that is closed behind it."""
    serving = asyncio.create_task(writer.run())
    try:
        await writer.do(decide, ["j1"])
    finally:
        writer.close()
        await serving


def submitting(state: State) -> Decision[None]:
    return Decision(None, [JobsSubmitted(0, (a_job("j1"),))])


async def test_a_commit_is_told_with_its_request_before_it_is_applied():
    state = a_state()
    seen = []

    class Watcher(Observer):
        def committed(self, events, causes, seconds, decisions=()):
            seen.append((len(events), [*causes], seconds > 0, state.entry(JobId("j1"))))

    store = MemoryStore()
    await store.open()
    token = request_id.set("r1")
    await serve(Writer(state, store, lambda events: None, Watcher()), submitting)
    request_id.reset(token)
    assert seen == [(1, ["r1"], True, None)]
    assert state.entry(JobId("j1")) is not None


async def test_a_failed_commit_is_told_and_no_other():
    store = FailingStore()
    store.broken = "no space left"
    recorder = Recorder()
    with pytest.raises(Exception, match="no space left"):
        await serve(Writer(a_state(), store, lambda events: None, recorder), submitting)
    assert recorder.told == [("commit_failed", ("no space left",))]
