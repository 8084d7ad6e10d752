"""What moves do to the meters, before and after they are recorded."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_job, a_state, start
from tests.property.oracle import HALF_LIFE_MS
from tests.property.world import a_lived_in_world
from tests.unit.service.world import FailingStore, a_box, a_submission
from tgpu.core.accounting.meter import Meters
from tgpu.core.model.events import Event
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Options
from tgpu.core.state.cluster_state import State
from tgpu.service.accounting.metering import METER, meter_documents, meters_after, read_meters
from tgpu.service.commands.submission import Submission
from tgpu.store.memory import MemoryStore

HOUR = 3_600_000
DEFAULT = TenantId("default")


def by(user: str, submission: Submission) -> Submission:
    return replace(submission, detail=replace(submission.detail, user=user))


@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(1, 9), min_size=1, max_size=60))
def test_what_is_recorded_is_what_the_state_comes_to(seed: int, cuts: list[int]) -> None:
    """However the events are cut into commits."""
    history = a_lived_in_world(Random(seed)).events
    state = State()
    state.meters = Meters(HALF_LIFE_MS)
    recorded: dict[tuple[str, str], bytes] = {}
    at = 0
    while at < len(history):
        cut = cuts[at % len(cuts)]
        commit: list[Event] = list(history[at : at + cut])
        at += len(commit)
        expected = meters_after(state, commit)
        recorded |= meter_documents(state, commit)
        for event in commit:
            state.apply(event)
        assert {owner: state.meters.by_owner[owner] for owner in expected} == expected
    averages = read_meters({name: content for (_, name), content in recorded.items()})
    assert averages == {
        owner: (meter.average, meter.at) for owner, meter in state.meters.by_owner.items()
    }


@given(seed=st.integers(0, 2**32))
def test_a_replay_of_the_journal_comes_to_the_same_meters(seed: int) -> None:
    world = a_lived_in_world(Random(seed))
    replayed = State()
    replayed.meters = Meters(HALF_LIFE_MS)
    for event in world.events:
        replayed.apply(event)
    assert replayed.meters.by_owner == world.state.meters.by_owner


async def test_a_restart_forgets_nobody_s_use() -> None:
    store = MemoryStore()
    async with a_box(leases=True, store=store) as box:
        for name in ("ann", "bob"):
            limit = Options(time_limit_ms=5 * HOUR)
            await box.submit(by(name, a_submission(job_id=name, gpus=2, options=limit)))
        await box.tick(0)
        await box.service.jobs.complete(JobId("ann"))
        await box.tick(HOUR)
        await box.tick(6 * HOUR)  # bob's time is up
        await box.submit(by("ann", a_submission(job_id="runs")))
        await box.tick(7 * HOUR)
        before = dict(box.service.state.meters.by_owner)
    async with a_box(leases=True, store=store) as box:
        assert box.service.state.meters.by_owner == before
        assert before[DEFAULT, "bob"].average > 0
        assert before[DEFAULT, None].rate == before[DEFAULT, "ann"].rate == 1000


async def test_a_move_that_was_not_recorded_leaves_no_meter() -> None:
    store = FailingStore()
    async with a_box(leases=True, store=store) as box:
        await box.submit(a_submission(job_id="j"))
        await box.tick(0)
        (commit,) = (c for c in store.commits if any(kind == METER for kind, _ in c.documents))
        names = {name for kind, name in commit.documents if kind == METER}
        assert names == {'["default", null]', '["default", ""]'}
        before = dict(box.service.state.meters.by_owner)
        store.broken = "no space left on the device"
        with pytest.raises(Exception, match="no space left"):
            await box.service.jobs.complete(JobId("j"))
        assert box.service.state.meters.by_owner == before


def test_who_runs_and_was_never_measured_is_measured_from_now_on() -> None:
    state = a_state(a_job("j", gpus=2, user="ann"))
    start(state, "j")
    state.meters = Meters()
    state.restore_meters({}, now=50)
    assert state.meters.by_owner[DEFAULT, "ann"] == (0, 2000, 50)
