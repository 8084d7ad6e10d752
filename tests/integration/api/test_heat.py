"""Heat decides, from the reading to the sentence."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tgpu.api.rest.app import make_app
from tgpu.app import make_service
from tgpu.devices.detect import Detected
from tgpu.devices.simulated import SimulatedProvider
from tgpu.service.service import Service
from tgpu.settings import load_settings


@dataclass
class Box:
    gpus: SimulatedProvider
    service: Service
    client: httpx.AsyncClient

    async def submit(self, **fields: Any) -> str:
        answer = await self.client.post("/jobs", json=fields)
        return str(answer.raise_for_status().json()["job_id"])

    async def status(self, index: int, wanted: str) -> None:
        """Wait until a GPU is seen in this status."""
        async with asyncio.timeout(20):
            while True:
                gpus = (await self.client.get("/gpus")).json()["gpus"]
                if gpus[index]["status"] == wanted:
                    return
                await asyncio.sleep(0.02)

    async def state(self, job_id: str, wanted: str) -> dict[str, Any]:
        async with asyncio.timeout(20):
            while True:
                job: dict[str, Any] = (await self.client.get(f"/jobs/{job_id}")).json()
                if job["state"] == wanted:
                    return job
                await asyncio.sleep(0.02)


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    flags = {
        "database.kind": "memory",
        "engine.kind": "none",
        "devices.monitor_interval_seconds": 0.1,
        "data_dir": str(tmp_path),
    }
    gpus = SimulatedProvider("sim:2xA100")
    settings = load_settings(None, flags, environ={})
    service = make_service(settings, tmp_path, Detected(gpus, "simulated"))
    await service.open()
    app = make_app(data_dir=None)
    app.state.service = service
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client:
        yield Box(gpus, service, client)
    await service.close()


async def test_a_hot_gpu_is_avoided_until_it_has_cooled_by_the_margin(box: Box) -> None:
    box.gpus.set(0, temperature_c=80)
    await box.status(0, "hot")
    first = await box.submit()
    assert (await box.state(first, "running"))["gpus"] == [1]
    second = await box.submit()
    why = (await box.client.get(f"/jobs/{second}/why")).json()["reason"]
    assert why["message"] == "needs 1 GPU; 0 of 2 GPUs free, 1 too hot"
    assert why["remedy"] == "tgpu gpus"
    box.gpus.set(0, temperature_c=72)  # below the threshold, not by the margin
    reading = await box.service.hardware.next_reading()
    assert reading.gpus[0].temperature_c == 72
    assert (await box.state(second, "pending"))["started_at"] is None
    box.gpus.set(0, temperature_c=65)
    assert (await box.state(second, "running"))["gpus"] == [0]


async def test_the_cooler_of_two_free_gpus_is_taken(box: Box) -> None:
    box.gpus.set(0, temperature_c=65)
    for _ in range(2):  # the first may have begun before the change
        await box.service.hardware.next_reading()
    job = await box.state(await box.submit(), "running")
    assert job["gpus"] == [1]
