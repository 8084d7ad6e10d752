"""What every engine promises, run on each of them."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

import pytest

from tests.integration.engines.box import Box, kill_and_wait, until_true
from tgpu.engines.api import (
    AttemptKey,
    Binding,
    Engine,
    EngineUnavailable,
    Launch,
    Observation,
    Overtaken,
    Phase,
    PreemptionNotice,
)
from tgpu.engines.fake import FakeEngine
from tgpu.engines.fake_cluster import FakeCluster
from tgpu.engines.local.engine import LocalEngine


class World(Protocol):
    """An engine, and the power to say when its attempts end."""

    @property
    def engine(self) -> Engine: ...

    def a_launch(self, name: str, attempt: int = 1) -> Launch:
        """An attempt that runs until it is told to end."""

    def end(self, name: str, exit_code: int) -> None: ...

    def another_engine(self) -> Engine:
        """The same attempts seen by another client, or by the same one opened again."""

    def runs_of(self, name: str) -> int:
        """How often a command of this job was started."""

    async def say(self, name: str, text: str) -> None:
        """Have an attempt that runs write this to its standard output."""

    async def crash(self) -> None:
        """What the engine has beyond its records on disk is gone, and it is there again."""


class FakeWorld:
    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine

    def a_launch(self, name: str, attempt: int = 1) -> Launch:
        return Launch(AttemptKey(name, attempt), ("wait",), "/", {})

    def end(self, name: str, exit_code: int) -> None:
        self.engine.finish(AttemptKey(name, 1), exit_code)

    def another_engine(self) -> Engine:
        return self.engine

    def runs_of(self, name: str) -> int:
        return sum(launch.key.job_id == name for launch in self.engine.launched)

    async def say(self, name: str, text: str) -> None:
        folder = Path(self.engine.find_logs(AttemptKey(name, 1)))
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "stdout.log").open("a") as file:
            file.write(text)

    async def crash(self) -> None:
        await self.engine.close()
        await self.engine.open()


class ClusterWorld(FakeWorld):
    engine: FakeCluster

    def runs_of(self, name: str) -> int:
        return sum(run.key.job_id == name for run in self.engine.runs)


class LocalWorld:
    def __init__(self, box: Box) -> None:
        self._box = box
        self.engine: LocalEngine = self._new()

    def a_launch(self, name: str, attempt: int = 1) -> Launch:
        script = (
            f"echo x >> $WORK/{name}.ran; "
            f"until [ -e $WORK/{name}.end ]; do sleep 0.02;"
            f" [ -e $WORK/{name}.say ] && cat $WORK/{name}.say && rm $WORK/{name}.say;"
            f" done; exit $(cat $WORK/{name}.end)"
        )
        launch = self._box.shell(name, script)
        return Launch(AttemptKey(name, attempt), launch.argv, launch.cwd, launch.env)

    def end(self, name: str, exit_code: int) -> None:
        file = self._box.work / f"{name}.new"
        file.write_text(str(exit_code))
        os.rename(file, self._box.work / f"{name}.end")

    def another_engine(self) -> Engine:
        return self._new()

    def runs_of(self, name: str) -> int:
        return len(self._box.lines(f"{name}.ran"))

    async def say(self, name: str, text: str) -> None:
        file = self._box.work / f"{name}.new"
        file.write_text(text)
        os.rename(file, said := self._box.work / f"{name}.say")
        await until_true(lambda: not said.exists(), "it to be said")

    async def crash(self) -> None:
        supervisor = self.engine.supervisor_pid
        assert supervisor is not None
        await kill_and_wait(supervisor)
        await self.engine.observe()  # by the one that takes its place

    def _new(self) -> LocalEngine:
        return self._box.new_engine()


@pytest.fixture(params=["fake", "cluster", "local"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    if request.param == "fake":
        yield FakeWorld(FakeEngine(logs=str(tmp_path)))
        return
    if request.param == "cluster":
        yield ClusterWorld(FakeCluster(logs=str(tmp_path)))
        return
    box = Box(tmp_path)
    try:
        yield LocalWorld(box)
    finally:
        await box.tear_down()


async def _wait(
    engine: Engine, key: AttemptKey, wanted: Callable[[Observation], bool]
) -> Observation:
    async with asyncio.timeout(20):
        while True:
            for seen in await engine.observe():
                if seen.key == key and wanted(seen):
                    return seen
            await asyncio.sleep(0.01)


async def _running(engine: Engine, name: str, attempt: int = 1) -> Observation:
    return await _wait(engine, AttemptKey(name, attempt), lambda o: o.phase is Phase.RUNNING)


async def _end(engine: Engine, name: str, attempt: int = 1) -> Observation:
    return await _wait(engine, AttemptKey(name, attempt), lambda o: o.is_over)


async def test_a_launched_attempt_runs_and_then_exits_with_its_code(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a")])
    running = await _running(world.engine, "a")
    world.end("a", 3)
    end = await _end(world.engine, "a")
    assert (running.pid is not None) == world.engine.capabilities.local_processes
    assert running.at == running.started_at
    assert (end.phase, end.exit_code, end.signal, end.cause) == (Phase.EXITED, 3, None, None)
    assert (end.pid, end.started_at) == (running.pid, running.started_at)
    assert end.at >= running.at


async def test_changes_tells_of_the_start_and_then_of_the_end(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a")])
    await _running(world.engine, "a")
    world.end("a", 0)
    phases: list[Phase] = []
    async with asyncio.timeout(20):
        async for batch in world.engine.changes():
            phases += [seen.phase for seen in batch]
            if Phase.EXITED in phases:
                break
    assert [phase for phase in phases if phase is not Phase.TAKEN] == [Phase.RUNNING, Phase.EXITED]
    assert phases[:-2] in ([], [Phase.TAKEN])  # before it starts, or not at all


async def test_launching_a_known_attempt_again_changes_nothing(world: World) -> None:
    await world.engine.open()
    launch = world.a_launch("a")
    await world.engine.launch([launch, launch])
    before = await _running(world.engine, "a")
    await world.engine.launch([launch])
    assert await world.engine.observe() == [before]
    await until_true(lambda: world.runs_of("a"), "the command to run")
    assert world.runs_of("a") == 1


async def test_launching_an_attempt_that_is_over_does_not_run_it_again(world: World) -> None:
    await world.engine.open()
    launch = world.a_launch("a")
    await world.engine.launch([launch])
    await _running(world.engine, "a")
    world.end("a", 2)
    before = await _end(world.engine, "a")
    await world.engine.launch([launch])
    assert await world.engine.observe() == [before]
    assert world.runs_of("a") == 1


async def test_attempts_of_one_job_are_apart_by_their_number(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a", 1), world.a_launch("a", 2)])
    await _running(world.engine, "a", 1)
    await _running(world.engine, "a", 2)
    await world.engine.stop([AttemptKey("a", 2)])
    assert (await _end(world.engine, "a", 2)).cause == "stopped"
    assert (await _running(world.engine, "a", 1)).phase is Phase.RUNNING


async def test_a_stopped_attempt_ends_with_that_cause(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a")])
    await _running(world.engine, "a")
    await world.engine.stop([AttemptKey("a", 1)])
    end = await _end(world.engine, "a")
    assert (end.phase, end.exit_code, end.signal, end.cause) == (Phase.EXITED, 143, 15, "stopped")


async def test_one_that_is_preempted_ends_as_stopped_too(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a")])
    await _running(world.engine, "a")
    await world.engine.stop([AttemptKey("a", 1)], PreemptionNotice(signal.SIGUSR1, 10))
    end = await _end(world.engine, "a")
    assert (end.phase, end.cause) == (Phase.EXITED, "stopped")


async def test_one_that_ended_by_itself_does_not_become_a_stopped_one(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a")])
    await _running(world.engine, "a")
    world.end("a", 0)
    end = await _end(world.engine, "a")
    await world.engine.stop([AttemptKey("a", 1)], PreemptionNotice(signal.SIGUSR1, 10))
    assert (end.cause, await world.engine.observe()) == (None, [end])


async def test_stopping_twice_is_stopping_once(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a")])
    await _running(world.engine, "a")
    await world.engine.stop([AttemptKey("a", 1), AttemptKey("a", 1)])
    end = await _end(world.engine, "a")
    await world.engine.stop([AttemptKey("a", 1)])
    assert await world.engine.observe() == [end]


async def test_an_attempt_stopped_before_its_launch_arrives_is_never_started(
    world: World,
) -> None:
    await world.engine.open()
    await world.engine.stop([AttemptKey("a", 1)])
    end = await _end(world.engine, "a")
    assert (end.phase, end.cause, end.retry) == (Phase.NOT_STARTED, "stopped", False)
    await world.engine.launch([world.a_launch("a")])
    assert await world.engine.observe() == [end]


async def test_a_tombstone_outlasts_a_crash_and_being_forgotten(world: World) -> None:
    """However late a launch comes, it loses against the stop that was there before it."""
    await world.engine.open()
    await world.engine.stop([AttemptKey("a", 1)])
    await _end(world.engine, "a")
    await world.crash()
    assert (await _end(world.engine, "a")).cause == "stopped"
    await world.engine.forget([AttemptKey("a", 1)])
    await world.crash()
    await world.engine.launch([world.a_launch("a"), world.a_launch("b")])
    await _running(world.engine, "b")
    assert (await _end(world.engine, "a")).phase is Phase.NOT_STARTED
    assert world.runs_of("a") == 0


async def test_one_that_is_over_and_forgotten_is_never_started_again(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a")])
    await _running(world.engine, "a")
    world.end("a", 4)
    await _end(world.engine, "a")
    await world.engine.forget([AttemptKey("a", 1)])
    await world.crash()
    await world.engine.launch([world.a_launch("a")])
    assert (await _end(world.engine, "a")).exit_code == 4  # told once more
    assert world.runs_of("a") == 1


async def test_whoever_asks_for_an_end_hears_of_one_also_if_it_was_forgotten(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a")])
    await _running(world.engine, "a")
    world.end("a", 0)
    await _end(world.engine, "a")
    await world.engine.forget([AttemptKey("a", 1)])
    await world.engine.stop([AttemptKey("a", 1)])
    assert (await _end(world.engine, "a")).is_over


async def test_an_engine_that_binds_says_where_it_has_put_an_attempt(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a")])
    place = (await _running(world.engine, "a")).place
    if world.engine.capabilities.binding is Binding.ENGINE:
        assert place is not None
        assert place.nodes
        assert place.engine_id
    else:
        assert place is None  # where it was told to be


async def test_an_end_is_told_until_it_is_forgotten(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a"), world.a_launch("b")])
    await _running(world.engine, "a")
    await _running(world.engine, "b")
    world.end("a", 0)
    await _end(world.engine, "a")
    await world.engine.forget([AttemptKey("a", 1)])
    assert [seen.key.job_id for seen in await world.engine.observe()] == ["b"]


async def test_an_attempt_that_runs_cannot_be_forgotten(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a")])
    before = await _running(world.engine, "a")
    await world.engine.forget([AttemptKey("a", 1), AttemptKey("unknown", 1)])
    assert await world.engine.observe() == [before]


async def test_an_attempt_goes_on_when_the_engine_is_closed(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a")])
    before = await _running(world.engine, "a")
    await world.engine.close()
    again = world.another_engine()
    await again.open()
    assert await _running(again, "a") == before
    world.end("a", 5)
    assert (await _end(again, "a")).exit_code == 5


async def test_the_first_batch_after_opening_is_everything(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a")])
    running = await _running(world.engine, "a")
    await world.engine.close()
    again = world.another_engine()
    await again.open()
    async with asyncio.timeout(20):
        batch = await anext(again.changes())
    assert running in batch


async def test_changes_ends_when_the_engine_is_closed(world: World) -> None:
    await world.engine.open()

    async def listen() -> list[list[Observation]]:
        return [batch async for batch in world.engine.changes()]

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    await world.engine.close()
    async with asyncio.timeout(20):
        assert await listening == []


async def test_an_engine_that_is_not_open_says_so(world: World) -> None:
    with pytest.raises(EngineUnavailable):
        await world.engine.observe()
    await world.engine.open()
    await world.engine.close()
    with pytest.raises(EngineUnavailable):
        await world.engine.launch([world.a_launch("a")])


async def test_opening_twice_is_opening_once(world: World) -> None:
    await world.engine.open()
    await world.engine.open()
    assert await world.engine.observe() == []


async def test_attempts_have_their_logs_apart(world: World) -> None:
    first, second = (world.engine.log_dir(AttemptKey("a", number)) for number in (1, 2))
    assert first is not None
    assert first != second


async def test_a_log_is_read_in_pieces_while_it_is_written_and_after_a_crash(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a")])
    await _running(world.engine, "a")
    key = AttemptKey("a", 1)
    before = await world.engine.read_log(key, "stdout", 0, 100)
    assert (before.data, before.size) == (b"", 0)
    await world.say("a", "one\ntwo\n")
    whole = await world.engine.read_log(key, "stdout", 0, 100)
    assert (whole.data, whole.offset, whole.size) == (b"one\ntwo\n", 0, 8)
    assert (await world.engine.read_log(key, "stdout", 4, 2)).data == b"tw"
    assert (await world.engine.read_log(key, "stdout", -4, 100)).offset == 4
    assert (await world.engine.read_log(key, "stdout", 8, 100)).data == b""
    await world.crash()
    await world.say("a", "three\n")
    assert (await world.engine.read_log(key, "stdout", 8, 100)).data == b"three\n"  # followed
    assert (await world.engine.read_log(key, "stderr", 0, 100)).data == b""


async def test_a_log_of_nobody_is_empty(world: World) -> None:
    await world.engine.open()
    assert (await world.engine.read_log(AttemptKey("nobody", 1), "stdout", 0, 9)).data == b""
    assert world.engine.stuck_reads == 0


async def test_of_what_did_not_fail_nothing_is_found(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a")])
    await _running(world.engine, "a")
    world.end("a", 0)
    assert await world.engine.evidence([await _end(world.engine, "a")]) == {}


async def test_a_paused_attempt_runs_on_in_the_books_and_can_be_stopped(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([world.a_launch("a")])
    running = await _running(world.engine, "a")
    for paused in (True, True, False, True):
        await world.engine.pause([AttemptKey("a", 1), AttemptKey("nobody", 1)], paused=paused)
    assert await world.engine.observe() == [running]
    await world.engine.stop([AttemptKey("a", 1)])
    assert (await _end(world.engine, "a")).cause == "stopped"


async def test_nothing_to_do_is_nothing_done(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([])
    await world.engine.stop([])
    await world.engine.pause([], paused=True)
    await world.engine.forget([])
    assert await world.engine.observe() == []


async def test_who_was_overtaken_starts_and_stops_nothing(world: World) -> None:
    engine = world.engine
    await engine.open()
    await engine.launch([world.a_launch("a")], epoch=1)
    running = await _running(engine, "a")
    await engine.launch([], epoch=2)  # the next service takes over
    with pytest.raises(Overtaken, match="epoch 2, and this one is 1") as caught:
        await engine.launch([world.a_launch("b")], epoch=1)
    assert (caught.value.epoch, caught.value.seen) == (1, 2)
    for keys in ([AttemptKey("a", 1)], [AttemptKey("c", 1)], []):
        with pytest.raises(Overtaken):
            await engine.stop(keys, epoch=1)
    with pytest.raises(Overtaken):
        await engine.launch([world.a_launch("b")])  # of none at all
    assert await engine.observe() == [running]
    await engine.launch([world.a_launch("b"), world.a_launch("c")], epoch=2)
    await _running(engine, "b")
    await _running(engine, "c")  # its stop has left no tombstone
    await engine.stop([AttemptKey("a", 1)], epoch=3)
    assert (await _end(engine, "a")).cause == "stopped"


async def test_an_epoch_outlasts_a_crash_of_the_engine(world: World) -> None:
    await world.engine.open()
    await world.engine.launch([], epoch=7)
    for _ in range(2):
        await world.crash()
        with pytest.raises(Overtaken) as caught:
            await world.engine.launch([world.a_launch("a")], epoch=6)
        assert caught.value.seen == 7
    assert (await world.engine.observe(), world.runs_of("a")) == ([], 0)
    await world.engine.launch([world.a_launch("a")], epoch=7)
    await _running(world.engine, "a")


async def test_two_clients_of_one_engine_are_told_apart_by_their_epochs(world: World) -> None:
    old, new = world.engine, world.another_engine()
    await old.open()
    await old.launch([world.a_launch("a")], epoch=1)
    await _running(old, "a")
    await new.open()
    await new.launch([], epoch=2)
    with pytest.raises(Overtaken):
        await old.stop([AttemptKey("a", 1)], epoch=1)
    await new.stop([AttemptKey("a", 1)], epoch=2)
    assert (await _end(new, "a")).cause == "stopped"


async def test_an_engine_that_binds_says_what_there_is_and_others_do_not(world: World) -> None:
    await world.engine.open()
    capacity = await world.engine.capacity()
    assert (capacity is not None) == (world.engine.capabilities.binding is Binding.ENGINE)
    if capacity is not None:
        assert all(each.node.gpus for each in capacity.nodes)
        assert all(each.node.engine == world.engine.name for each in capacity.nodes)
        assert capacity.at <= world.engine.now()
