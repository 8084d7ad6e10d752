"""However many ask how the GPUs are, the driver is asked once an interval."""

import asyncio

from tests.integration.api.http import an_api
from tgpu.devices.api import Snapshot
from tgpu.devices.simulated import SimulatedProvider

PATHS = (
    *("/api/v1/gpus", "/api/v1/cluster/status", "/api/v1/cluster/metrics", "/api/v1/nodes"),
    *("/api/v1/health", "/api/v1/jobs?state=running,pending", "/stats"),
)
CLIENTS = 20


class CountingProvider(SimulatedProvider):
    """A driver that must be asked, and counts how often it was."""

    rounds = 0

    def read(self) -> Snapshot:
        self.rounds += 1
        return super().read()

    def at_once(self) -> Snapshot | None:
        return None


async def test_those_who_look_cost_no_driver_calls() -> None:
    provider = CountingProvider("sim:8xA100")
    async with an_api(provider=provider) as api:
        for interval in range(1, 4):
            assert provider.rounds == interval
            asked = [api.get(path) for path in PATHS for _ in range(CLIENTS)]
            answers = await asyncio.gather(*asked)
            assert {answer.status_code for answer in answers} == {200}
            assert provider.rounds == interval
            await api.box.service.gpu_monitor.look()


async def test_looks_at_the_same_time_are_one_round() -> None:
    provider = CountingProvider("sim:8xA100")
    async with an_api(provider=provider) as api:
        before = provider.rounds
        looks = [api.box.service.machines[0].watch.read() for _ in range(CLIENTS)]
        found = await asyncio.gather(*looks)
        assert provider.rounds - before <= 2  # those that came while one was out share the next
        assert len({id(snapshot) for snapshot in found}) <= 2
