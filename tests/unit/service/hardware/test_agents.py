"""Machines that report: known, heard, silent, forgotten."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.service.world import Box, FailingStore, a_box
from tgpu.core.errors import Conflict, InvalidRequest, NotFound
from tgpu.devices.api import GpuReading
from tgpu.service.hardware.agents import Agents, Readings, Registration
from tgpu.store.memory import MemoryStore

H100 = GpuReading(0, "GPU-0", "NVIDIA H100", "H100", 80_000, temperature_c=50)


def a_registration(name: str = "box", cores: int = 8) -> Registration:
    return Registration(name, "1.0", "nvml", False, cores, 1024, (H100,), "10.0.0.7")


class Ticking:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def store() -> FailingStore:
    return FailingStore()


@pytest.fixture
async def box(store: MemoryStore) -> AsyncIterator[Box]:
    async with a_box(store=store) as made:
        yield made


@pytest.fixture
def now() -> Ticking:
    return Ticking()


@pytest.fixture
def agents(box: Box, now: Ticking) -> Agents:
    return Agents(box.service.writer, box.service.store, 30, now, own=["local"])


async def test_a_node_is_online_until_it_was_silent_for_long(agents, now):
    await agents.register(a_registration(), "i1")
    agent = agents.get("box")
    now.seconds += 30
    assert agents.is_online(agent)
    now.seconds += 0.1
    assert not agents.is_online(agent)
    agents.hear("box", "i1", None)
    assert agents.is_online(agent)


async def test_what_is_recorded_is_the_machine_and_not_how_it_feels(agents):
    await agents.register(a_registration(), "i1")
    assert agents.get("box").registration.gpus[0].temperature_c is None


async def test_a_new_service_knows_the_nodes_as_offline(agents, box, now):
    await agents.register(a_registration("b"), "i1")
    await agents.register(a_registration("a"), "i2")
    later = Agents(box.service.writer, box.service.store, 30, now)
    await later.open()
    assert [agent.registration.name for agent in later.all()] == ["a", "b"]
    assert not any(map(later.is_online, later.all()))
    assert later.get("a").last_seen_at is None
    with pytest.raises(NotFound):
        later.hear("a", "i2", None)  # it must say again what it is


async def test_a_machine_that_did_not_change_is_not_recorded_again(agents, store):
    await agents.register(a_registration(), "i1")
    before = len(store.commits)
    registered_at = agents.get("box").registration.registered_at
    await agents.register(a_registration(), "i2")
    assert len(store.commits) == before
    assert agents.get("box").registration.registered_at == registered_at
    await agents.register(a_registration(cores=16), "i2")
    assert len(store.commits) == before + 1
    assert agents.get("box").registration.cpu_cores == 16


async def test_beats_are_not_recorded(agents, store):
    await agents.register(a_registration(), "i1")
    before = len(store.commits)
    agents.hear("box", "i1", Readings((H100,)))
    assert len(store.commits) == before
    assert agents.get("box").readings.gpus == (H100,)


async def test_a_name_is_free_again_when_its_stream_is_silent_for_long(agents, now):
    await agents.register(a_registration(), "i1")
    with agents.streaming("box", "i1"):
        with pytest.raises(Conflict):
            await agents.register(a_registration(), "i2")
        now.seconds += 31  # the other machine lost its power: its connection looks open
        await agents.register(a_registration(), "i2")
    assert agents.get("box").instance == "i2"
    assert agents.get("box").streams == 0


async def test_an_offline_node_is_forgotten_for_good(agents, box, now):
    await agents.register(a_registration(), "i1")
    now.seconds += 31
    await agents.forget("box")
    assert agents.all() == []
    assert await box.service.store.documents("agent") == {}


async def test_a_node_that_is_online_is_not_forgotten(agents):
    await agents.register(a_registration(), "i1")
    with pytest.raises(Conflict, match="stop its agent"):
        await agents.forget("box")


async def test_nobody_forgets_what_nobody_knows(agents):
    with pytest.raises(NotFound, match="tgpu nodes"):
        await agents.forget("nobody")


@pytest.mark.parametrize("name", ["local", "", "a b", "-x", "ü", "x" * 129])
async def test_a_name_that_cannot_be_is_refused(agents, name):
    with pytest.raises(InvalidRequest, match="name"):
        await agents.register(a_registration(name), "i1")


async def test_a_node_never_enters_the_scheduling_state(agents, box):
    await agents.register(a_registration(), "i1")
    assert list(box.service.state.ledger.nodes) == ["local"]
