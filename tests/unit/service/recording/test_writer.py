"""The one writer: groups, failures, and what each command gets to see."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.builders import a_job, a_state
from tests.unit.service.eventually import eventually
from tests.unit.service.world import FailingStore, ignore
from tgpu.breaker import BreakerRules, BreakerState
from tgpu.core.errors import Conflict, InvariantBroken, Unavailable
from tgpu.core.model.events import Event, JobMoved, JobsSubmitted
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import JobState, Move, hold
from tgpu.core.state.cluster_state import State
from tgpu.service.recording.observer import Observer
from tgpu.service.recording.writer import Decision, StateApart, Writer
from tgpu.store.api import Record, StoreChanged, StoreUnavailable


class GatedStore(FailingStore):
    """Commits wait for the gate, so that a test decides what arrives meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails_once: str | None = None
        self.raises: Exception | None = None

    async def commit(self, record: Record) -> int:
        await self.gate.wait()
        if self.raises is not None:
            raise self.raises
        if self.fails_once is not None:
            problem, self.fails_once = self.fails_once, None
            raise StoreUnavailable(problem)
        return await super().commit(record)


class World:
    def __init__(self, published: list[Event] | None = None) -> None:
        self.state = a_state()
        self.store = GatedStore()
        told = ignore if published is None else published.extend
        self.writer = Writer(self.state, self.store, told)

    def groups(self) -> list[list[str]]:
        """The ids of new jobs in each commit."""
        return [
            [
                job.job_id
                for event in record.events
                if isinstance(event, JobsSubmitted)
                for job in event.jobs
            ]
            for record in self.store.commits
        ]

    def submit(self, job_id: str, *, exclusive: bool = False) -> "asyncio.Task[str]":
        def decide(state: State) -> Decision[str]:
            if state.entry(JobId(job_id)) is not None:
                raise Conflict(f"{job_id} is there")
            return Decision(job_id, [JobsSubmitted(0, (a_job(job_id),))])

        return asyncio.create_task(self.writer.do(decide, None if exclusive else [job_id]))

    def hold(self, job_id: str) -> "asyncio.Task[bool]":
        def decide(state: State) -> Decision[bool]:
            entry = state.entry(JobId(job_id))
            if entry is None:
                raise Conflict(f"{job_id} is not there")
            progress = hold(JobId(job_id), entry.progress, True)
            return Decision(True, [JobMoved(0, JobId(job_id), Move.HOLD, progress)])

        return asyncio.create_task(self.writer.do(decide, [job_id]))


@asynccontextmanager
async def running(world: World) -> AsyncIterator[World]:
    task = asyncio.create_task(world.writer.run())
    try:
        yield world
    finally:
        world.store.gate.set()
        world.writer.close()
        await asyncio.wait_for(task, 5)


async def all_arrived() -> None:
    """Every task created so far has reached the writer: each needs one turn of the loop."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def behind_a_closed_gate(world: World) -> "asyncio.Task[str]":
    """A first command is being committed, and everything else must queue up behind it."""
    world.store.gate.clear()
    first = world.submit("first")
    await all_arrived()
    return first


async def test_commands_that_arrive_during_a_commit_share_the_next_one() -> None:
    async with running(World()) as world:
        first = await behind_a_closed_gate(world)
        others = [world.submit(f"j{n}") for n in range(5)]
        await all_arrived()
        world.store.gate.set()
        await asyncio.gather(first, *others)
        assert world.groups() == [["first"], ["j0", "j1", "j2", "j3", "j4"]]


async def test_two_commands_on_one_job_never_share_a_group_and_the_second_sees_the_first() -> None:
    async with running(World()) as world:
        first = await behind_a_closed_gate(world)
        submit, held = world.submit("j1"), world.hold("j1")
        await all_arrived()
        world.store.gate.set()
        assert await held  # it would raise Conflict had it not seen the job
        await asyncio.gather(first, submit)
        assert [len(record.events) for record in world.store.commits] == [1, 1, 1]


async def test_the_second_of_two_commands_that_exclude_each_other_is_refused() -> None:
    async with running(World()) as world:
        first = await behind_a_closed_gate(world)
        one, two = world.submit("j1"), world.submit("j1")
        await all_arrived()
        world.store.gate.set()
        assert await one == "j1"
        with pytest.raises(Conflict):
            await two
        await first


async def test_order_is_kept_behind_a_command_that_cannot_join_the_group() -> None:
    """A third command on another job must not overtake: callers see their order kept."""
    async with running(World()) as world:
        first = await behind_a_closed_gate(world)
        tasks = [world.submit("a"), world.hold("a"), world.submit("b")]
        await all_arrived()
        world.store.gate.set()
        await asyncio.gather(first, *tasks)
        assert world.groups() == [["first"], ["a"], ["b"]]


async def test_an_exclusive_command_is_decided_alone() -> None:
    async with running(World()) as world:
        first = await behind_a_closed_gate(world)
        tasks = [world.submit("a"), world.submit("x", exclusive=True), world.submit("b")]
        await all_arrived()
        world.store.gate.set()
        await asyncio.gather(first, *tasks)
        assert world.groups() == [["first"], ["a"], ["x"], ["b"]]


async def test_a_decision_that_fails_harms_no_other_in_its_group() -> None:
    async with running(World()) as world:
        first = await behind_a_closed_gate(world)

        def broken(_: State) -> Decision[None]:
            raise ZeroDivisionError("a bug in one command")

        bad = asyncio.create_task(world.writer.do(broken, ["bad"]))
        good = world.submit("good")
        await all_arrived()
        world.store.gate.set()
        assert await good == "good"
        with pytest.raises(ZeroDivisionError):
            await bad
        await first


async def test_a_commit_that_fails_fails_its_group_changes_nothing_and_the_next_works() -> None:
    async with running(World()) as world:
        world.store.broken = "no space left on the device"
        refused = [world.submit("a"), world.submit("b")]
        for task in refused:
            with pytest.raises(StoreUnavailable, match="no space"):
                await task
        assert world.state.live_count() == 0
        assert world.writer.trouble == "no space left on the device"
        world.store.broken = None
        assert await world.submit("a") == "a"
        assert world.state.entry(JobId("a")) is not None
        assert world.writer.trouble is None


async def test_only_the_group_of_the_failed_commit_fails() -> None:
    async with running(World()) as world:
        first = await behind_a_closed_gate(world)
        second = world.submit("second")
        await all_arrived()
        world.store.fails_once = "full"
        world.store.gate.set()
        with pytest.raises(StoreUnavailable):
            await first
        assert await second == "second"
        assert world.groups() == [["second"]]
        assert world.state.entry(JobId("first")) is None


async def test_a_caller_that_goes_away_takes_nothing_with_it() -> None:
    async with running(World()) as world:
        first = await behind_a_closed_gate(world)
        gone, stays = world.submit("gone"), world.submit("stays")
        await all_arrived()
        gone.cancel()
        world.store.gate.set()
        assert await stays == "stays"
        await first
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert world.state.entry(JobId("stays")) is not None


async def test_close_serves_what_was_taken_and_refuses_what_comes_after() -> None:
    world = World()
    task = asyncio.create_task(world.writer.run())
    first = await behind_a_closed_gate(world)
    taken = world.submit("taken")
    await all_arrived()
    world.writer.close()
    with pytest.raises(Unavailable, match="stopping"):
        await world.submit("late")
    world.store.gate.set()
    assert (await first, await taken) == ("first", "taken")
    await asyncio.wait_for(task, 5)


async def test_events_are_published_after_they_are_applied() -> None:
    seen: list[bool] = []
    world = World()

    def published(events: Sequence[Event]) -> None:
        seen.append(
            all(
                world.state.entry(j.job_id)
                for e in events
                if isinstance(e, JobsSubmitted)
                for j in e.jobs
            )
        )

    world.writer = Writer(world.state, world.store, published)
    async with running(world):
        await world.submit("j1")
    assert seen == [True]


async def test_a_command_without_events_commits_nothing() -> None:
    async with running(World()) as world:
        answer = await world.writer.do(lambda _: Decision("as it was"), ["j1"])
        assert answer == "as it was"
        assert world.store.commits == []


# -- failures behind a commit --------------------------------------------------------------------


def bug(*_: object) -> None:
    raise ZeroDivisionError("a bug")


def with_a_bug_in(world: World, where: str) -> None:
    """Behind the commit, in this step of it."""
    state = world.state
    if where == "apply":
        state.apply = bug  # type: ignore[method-assign,assignment]  # for the test alone
    world.writer = Writer(
        state,
        world.store,
        bug if where == "published" else ignore,
        recorded=bug if where == "recorded" else None,
    )


@pytest.mark.parametrize("where", ["recorded", "apply", "published", "applied"])
async def test_after_a_failure_behind_a_commit_nobody_waits_and_nothing_is_decided(
    where: str,
) -> None:
    world = World()
    with_a_bug_in(world, where)
    task = asyncio.create_task(world.writer.run())
    first = await behind_a_closed_gate(world)
    if where == "applied":
        first.cancel()
        decided = Decision("", documents={("a", "b"): b"c"}, applied=bug)
        first = asyncio.create_task(world.writer.do(lambda _: decided, None))
    behind = world.submit("behind", exclusive=True)
    await all_arrived()
    world.store.gate.set()
    for refused in (first, behind):
        with pytest.raises(StateApart, match="took effect"):
            await asyncio.wait_for(refused, 5)
    with pytest.raises(StateApart):
        await asyncio.wait_for(task, 5)
    with pytest.raises(StateApart):
        await world.submit("later")
    assert "behind" not in str(world.groups())
    assert world.writer.problem is not None
    assert "ZeroDivisionError: a bug" in world.writer.problem


@pytest.mark.parametrize("error", [InvariantBroken("a job is over there"), StoreChanged("fenced")])
async def test_a_store_that_contradicts_the_state_ends_the_writer(error: Exception) -> None:
    world = World()
    world.store.raises = error
    task = asyncio.create_task(world.writer.run())
    with pytest.raises(StateApart):
        await asyncio.wait_for(world.submit("j1"), 5)
    with pytest.raises(StateApart):
        await asyncio.wait_for(task, 5)


async def test_a_commit_that_is_cancelled_is_never_taken_for_one_that_failed() -> None:
    world = World()
    task = asyncio.create_task(world.writer.run())
    first = await behind_a_closed_gate(world)
    task.cancel()
    with pytest.raises(StateApart):
        await asyncio.wait_for(first, 5)
    assert world.writer.apart is not None
    with pytest.raises(StateApart):
        await task


async def test_a_bug_that_leaves_a_trial_in_the_state_ends_the_writer() -> None:
    world = World()
    task = asyncio.create_task(world.writer.run())

    def half_undone(state: State) -> Decision[None]:
        state.counts[JobState.RUNNING] += 1
        raise ZeroDivisionError("in the middle of a trial")

    with pytest.raises(ZeroDivisionError):
        await world.writer.do(half_undone, None)
    with pytest.raises(StateApart):
        await asyncio.wait_for(task, 5)


# -- a store that hangs --------------------------------------------------------------------------


def hanging() -> World:
    world = World()
    world.writer = Writer(world.state, world.store, ignore, patience_seconds=0.05)
    return world


async def test_a_store_that_hangs_keeps_nobody_waiting_and_what_it_records_counts() -> None:
    async with running(hanging()) as world:
        first = await behind_a_closed_gate(world)
        behind = world.submit("behind", exclusive=True)
        with pytest.raises(StoreUnavailable, match="not known yet") as caught:
            await first
        assert not caught.value.is_outcome_known
        with pytest.raises(StoreUnavailable, match="Nothing was recorded") as refusal:
            await behind
        assert refusal.value.is_outcome_known
        with pytest.raises(StoreUnavailable, match="Nothing was recorded"):
            await world.submit("later")
        assert world.writer.problem is not None
        assert "has not answered for" in world.writer.problem
        assert world.state.entry(JobId("first")) is None
        world.store.gate.set()
        await eventually(lambda: world.writer.problem is None, "the store to answer")
        assert world.state.entry(JobId("first")) is not None
        assert await world.submit("after") == "after"
        assert world.groups() == [["first"], ["after"]]


async def test_a_hanging_commit_that_fails_in_the_end_changes_nothing() -> None:
    async with running(hanging()) as world:
        first = await behind_a_closed_gate(world)
        with pytest.raises(StoreUnavailable, match="not known yet"):
            await first
        world.store.fails_once = "the disk is gone"
        world.store.gate.set()
        await eventually(lambda: not world.writer.is_stuck, "the store to answer")
        assert world.state.live_count() == 0
        assert await world.submit("first") == "first"


async def test_who_must_know_the_outcome_waits_for_it() -> None:
    async with running(hanging()) as world:
        first = await behind_a_closed_gate(world)
        patient = asyncio.create_task(
            world.writer.do(lambda _: Decision("done"), None, is_patient=True)
        )
        with pytest.raises(StoreUnavailable):
            await first
        world.store.gate.set()
        assert await patient == "done"


# -- a store that keeps failing ------------------------------------------------------------------

QUICK = BreakerRules(failures=3, retry_ms=50)
NEVER = BreakerRules(failures=3, retry_ms=3_600_000)


def failing(rules: BreakerRules) -> World:
    world = World()
    world.writer = Writer(world.state, world.store, ignore, rules=rules)
    world.store.broken = "disk full"
    return world


async def refused(world: World, *job_ids: str) -> list[str]:
    answers = []
    for job_id in job_ids:
        with pytest.raises(StoreUnavailable) as caught:
            await world.submit(job_id)
        answers.append(caught.value.message)
    return answers


async def test_a_store_that_keeps_failing_is_left_alone() -> None:
    async with running(failing(NEVER)) as world:
        first, second, third, fourth = await refused(world, "a", "b", "c", "d")
        assert (first, second, third) == ("disk full",) * 3
        assert fourth.startswith("the store fails: disk full. Nothing was recorded; try again in")
        world.store.broken = None
        assert len(await refused(world, "e")) == 1
        assert world.store.commits == []
        assert world.state.live_count() == 0


async def test_it_is_tried_now_and_then_and_taken_back_by_itself() -> None:
    async with running(failing(QUICK)) as world:
        await refused(world, "a", "b", "c", "d")
        world.store.broken = None
        await eventually(lambda: world.writer.breaker.is_closed, "the store to be taken back")
        assert world.writer.trouble is None
        assert await world.submit("e") == "e"
        assert world.groups()[-1] == ["e"]


async def test_commands_that_wait_when_it_opens_are_refused_with_the_rest() -> None:
    async with running(failing(NEVER)) as world:
        await refused(world, "a", "b")
        world.store.gate.clear()
        waiting = [world.submit("x", exclusive=True), world.submit("y", exclusive=True)]
        await all_arrived()
        world.store.gate.set()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(answer) for answer in answers] == [StoreUnavailable, StoreUnavailable]
        assert not world.writer.breaker.is_closed


async def test_what_is_wrong_with_a_command_is_no_failure_of_the_store() -> None:
    async with running(World()) as world:
        await world.submit("a")
        for _ in range(5):
            with pytest.raises(Conflict):
                await world.submit("a")
        assert world.writer.breaker.is_closed


async def test_those_who_watch_hear_of_it_once_each_way() -> None:
    told: list[tuple[str, BreakerState]] = []

    class Watcher(Observer):
        def breaker_changed(self, of: str, state: BreakerState) -> None:
            told.append((of, state))

    world = failing(QUICK)
    world.writer = Writer(world.state, world.store, ignore, Watcher(), rules=QUICK)
    async with running(world):
        await refused(world, "a", "b", "c", "d", "e")
        world.store.broken = None
        await eventually(lambda: world.writer.breaker.is_closed, "the store to be taken back")
    assert told == [("store", BreakerState.OPEN), ("store", BreakerState.CLOSED)]
