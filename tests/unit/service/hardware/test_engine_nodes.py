"""The nodes of an engine that binds by itself: counted, whoever has them."""

import pytest

from tests.unit.service.eventually import eventually
from tests.unit.service.world import Box, a_box, a_submission
from tgpu.core.errors import NotFound
from tgpu.core.model.ids import NodeId
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.node import GpuName
from tgpu.engines.fake_cluster import FakeCluster, Loss
from tgpu.service.recording.clock import ManualClock
from tgpu.store.memory import MemoryStore


def a_cluster(clock: ManualClock | None = None, **options: object) -> FakeCluster:
    clock = clock or ManualClock()
    return FakeCluster(nodes={"a": 2, "b": 1}, clock=clock.now, **options)  # type: ignore[arg-type]


def usable(box: Box) -> dict[str, int]:
    """How many GPUs of each node can take a job, or have one."""
    return {
        name: sum(gpu.is_usable for gpu in use.node.gpus)
        for name, use in box.service.state.ledger.nodes.items()
    }


async def looked(box: Box) -> dict[str, int]:
    await box.service.engine_nodes.look()
    return usable(box)


async def test_its_nodes_are_those_that_jobs_are_counted_on() -> None:
    async with a_box(engine=a_cluster(), own_engine="") as box:
        assert usable(box) == {"a": 2, "b": 1}
        for name in ("x", "y", "z", "zz"):
            await box.submit(a_submission("train", job_id=name))
        assert sorted(await box.tick(1)) == ["x", "y", "z"]
        await eventually(lambda: len(box.engine.launched) == 3, "three launches")
        assert [launch.placement for launch in box.engine.launched] == [None] * 3
        await box.until("x", JobState.RUNNING)
        box.engine.finish(await box.key("x"))
        await box.until("x", JobState.COMPLETED)
        assert await box.tick(2) == ["zz"]


async def test_what_others_have_is_not_given_out() -> None:
    cluster = a_cluster()
    cluster.give_to_others("a", 1)
    async with a_box(engine=cluster, own_engine="") as box:
        assert usable(box) == {"a": 1, "b": 1}
        for name in ("x", "y", "z"):
            await box.submit(a_submission("train", job_id=name))
        assert sorted(await box.tick(1)) == ["x", "y"]
        for name in ("x", "y"):
            await box.until(name, JobState.RUNNING)
        assert await looked(box) == {"a": 1, "b": 1}  # ours are ours, and not others'
        cluster.give_to_others("a", 0)
        assert await looked(box) == {"a": 2, "b": 1}
        assert await box.tick(2) == ["z"]


async def test_a_gang_takes_as_many_as_there_are_and_no_more() -> None:
    async with a_box(engine=a_cluster(), own_engine="") as box:
        await box.submit(a_submission("train", job_id="x", gpus=2))
        await box.submit(a_submission("train", job_id="y", gpus=2))
        assert await box.tick(1) == ["x"]


async def test_a_silent_node_takes_nothing_and_is_no_fault_of_its_gpus() -> None:
    cluster = a_cluster()
    async with a_box(engine=cluster, own_engine="") as box:
        cluster.silence("a")
        assert await looked(box) == {"a": 0, "b": 1}
        cluster.hear("a")
        assert await looked(box) == {"a": 2, "b": 1}
        assert await box.service.store.documents("gpu_health") == {}


async def test_what_is_old_is_not_given_out_and_comes_back() -> None:
    clock = ManualClock()
    cluster = a_cluster(clock)
    async with a_box(engine=cluster, own_engine="", clock=clock) as box:
        cluster.told_at = 0
        clock.set(60_000)
        assert await looked(box) == {"a": 2, "b": 1}
        clock.set(60_001)
        assert await looked(box) == {"a": 0, "b": 0}
        assert any("for a minute" in each for each in box.service.problems())
        cluster.told_at = None
        assert await looked(box) == {"a": 2, "b": 1}


async def test_an_engine_that_does_not_answer_keeps_its_nodes_for_a_while() -> None:
    clock = ManualClock()
    cluster = a_cluster(clock)
    async with a_box(engine=cluster, own_engine="", clock=clock) as box:
        cluster.loses = lambda point: Loss.CALL if point == "capacity" else None
        assert await looked(box) == {"a": 2, "b": 1}
        assert any("is not known now" in each for each in box.service.problems())
        clock.set(60_001)
        assert await looked(box) == {"a": 0, "b": 0}
        cluster.loses = lambda point: None
        assert await looked(box) == {"a": 2, "b": 1}
        assert box.service.problems() == []


async def test_a_node_that_is_gone_goes_once_nothing_of_ours_is_on_it() -> None:
    store, cluster = MemoryStore(), FakeCluster(nodes={"a": 1}, clock=ManualClock().now)
    async with a_box(store=store, engine=cluster, own_engine="") as box:
        await box.submit(a_submission("train", job_id="x"))
        await box.run("x")
        cluster.remove_node("a")
        assert await looked(box) == {"a": 0}
        with pytest.raises(NotFound):
            await box.service.pause_gpu(GpuName(NodeId("b"), 0), "why not")
        cluster.finish(await box.key("x"))
        await box.until("x", JobState.COMPLETED)
        assert await looked(box) == {}


async def test_a_gpu_that_an_operator_paused_stays_so_over_a_restart() -> None:
    store, cluster = MemoryStore(), a_cluster()
    async with a_box(store=store, engine=cluster, own_engine="") as box:
        await box.service.pause_gpu(GpuName(NodeId("a"), 1), "fan")
        assert await looked(box) == {"a": 1, "b": 1}
    async with a_box(store=store, engine=cluster, own_engine="") as again:
        assert usable(again) == {"a": 1, "b": 1}


async def test_a_node_with_the_name_of_another_is_left_out_and_said() -> None:
    async with a_box(engine=a_cluster(), own_engine="", nodes={"a": "sim:4xA100"}) as box:
        assert usable(box) == {"a": 4, "b": 1}
        assert "engine: node a has the name of another node" in box.service.problems()
