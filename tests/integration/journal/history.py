"""A service on a manual clock that lived through something, and its journal as lines."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tgpu.api.rest.routes.journal import _lines as journal_lines
from tgpu.app import make_service
from tgpu.core.errors import SchedulerError
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Dependency, DependencyKind, Detail, Options, Request
from tgpu.core.model.plan import Plan
from tgpu.core.state.digest import digest
from tgpu.devices.detect import detect
from tgpu.service.commands.submission import Submission
from tgpu.service.recording.clock import ManualClock
from tgpu.service.service import Service
from tgpu.settings import load_settings

BEGIN = 1_700_000_000_000  # a real date: budgets and bookings know calendars
TENANTS = (
    {"tenant_id": "vision", "max_gpus": 3, "cohort": "lab"},
    {"tenant_id": "speech", "max_gpus": 3, "cohort": "lab", "fair_share_weight": 2},
    {"tenant_id": "free"},
)


@dataclass
class Lived:
    """What happened, as the service itself saw it."""

    lines: list[bytes]
    digest: str
    plans: list[tuple[int, Plan]] = field(default_factory=list)


@asynccontextmanager
async def a_service(
    directory: Path, settings: Mapping[str, Any], gpus: str = "sim:4xA100"
) -> AsyncIterator[Service]:
    config = {
        "tenants": TENANTS,
        "engine.kind": "none",
        "scheduler.clock": "manual",
        "data_dir": str(directory),
        "devices.monitor_interval_seconds": 3600,
        **settings,
    }
    service = make_service(load_settings(None, config, environ={}), directory, detect(gpus))
    assert isinstance(service.clock, ManualClock)
    service.clock.set(BEGIN)
    await service.open()
    try:
        yield service
    finally:
        await service.close()


async def lines_of(service: Service, after: int = 0) -> list[bytes]:
    pieces = [piece async for piece in journal_lines(service, after, False, service.feed.last_seq)]
    return b"".join(pieces).splitlines(keepends=True)


class Player:
    """Does to a service what its users do, by the throw of dice."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now = BEGIN
        self.ends: dict[JobId, int] = {}
        self.runs: dict[JobId, int] = {}
        self.known: list[JobId] = []
        self.plans: list[tuple[int, Plan]] = []

    async def play(self, service: Service, steps: int) -> None:
        assert isinstance(service.clock, ManualClock)
        for _ in range(steps):
            self.now = self.next_instant()
            service.clock.set(self.now)
            for job_id in sorted(one for one, at in self.ends.items() if at <= self.now):
                del self.ends[job_id]
                await self.try_to(service.jobs.complete(job_id))
            for _ in range(self.rng.randrange(3)):
                await self.submit(service)
            if self.known and not self.rng.randrange(6):
                await self.meddle(service)
            await self.tick(service)

    def next_instant(self) -> int:
        soon = self.now + self.rng.randrange(1, 40_000)
        return min([soon, *(at for at in self.ends.values() if at > self.now)])

    async def tick(self, service: Service) -> None:
        plan = await service.tick(self.now)
        self.plans.append((self.now, plan))
        for preemption in plan.preemptions:
            self.ends.pop(preemption.victim, None)
        for start in plan.starts:
            self.ends[start.job_id] = self.now + self.runs.get(start.job_id, 10_000)

    async def submit(self, service: Service) -> None:
        rng = self.rng
        job_id = JobId(f"j{len(self.known):03}")
        runs = rng.randrange(5_000, 120_000)
        limit = runs + rng.randrange(1_000, 60_000) if rng.randrange(3) else None
        after: tuple[Dependency, ...] = ()
        if self.known and not rng.randrange(8):
            kind = rng.choice(list(DependencyKind))
            after = (Dependency(rng.choice(self.known), kind),)
        options = Options(lease=True, time_limit_ms=limit, user=rng.choice(("ada", "bob", "cyd")))
        submission = Submission(
            Request(rng.choice((250, 500, 1000, 1000, 2000, 3000, 4000))),
            TenantId(str(rng.choice(TENANTS)["tenant_id"])),
            job_id,
            priority=rng.choice((100, 500, 500, 900)),
            options=options,
            after=after,
            held=not rng.randrange(15),
            detail=Detail(
                name=f"train {job_id}",
                argv=("python", "--token", "hush"),
                env=(("API_KEY", "hush"),),
            ),
        )
        if await self.try_to(service.jobs.submit(submission)):
            self.known.append(job_id)
            self.runs[job_id] = runs

    async def meddle(self, service: Service) -> None:
        job_id = self.rng.choice(self.known)
        match self.rng.randrange(4):
            case 0:
                await self.try_to(service.jobs.hold(job_id, held=True))
            case 1:
                await self.try_to(service.jobs.hold(job_id, held=False))
            case 2:
                await self.try_to(service.jobs.cancel(job_id))
                self.ends.pop(job_id, None)
            case 3:
                reason = None if self.rng.randrange(2) else "swap the fan"
                await service.pause_gpu(self.rng.randrange(4), reason)

    async def try_to(self, wanted: Any) -> bool:
        try:
            await wanted
        except SchedulerError:
            return False
        return True


async def a_history(
    directory: Path, settings: Mapping[str, Any], *, seed: int = 1, steps: int = 120
) -> Lived:
    player = Player(seed)
    async with a_service(directory, settings) as service:
        await player.play(service, steps)
        return Lived(await lines_of(service), digest(service.state), player.plans)
