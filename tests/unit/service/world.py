"""Services for tests: real commands, a store in memory, simulated GPUs, a clock that is told."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from typing import Any

from tests.unit.service.eventually import eventually
from tgpu.accounts.system import SystemAccounts
from tgpu.core.check import check_invariants
from tgpu.core.model.events import Event
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Detail, Options, Request
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.tenant import Tenant
from tgpu.core.model.units import gpu_millis
from tgpu.core.policies.priority import PriorityWithAging
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.core.state.cluster_state import State
from tgpu.devices.simulated import SimulatedProvider
from tgpu.devices.watch import DeviceWatch
from tgpu.engines.api import AttemptKey, Engine
from tgpu.engines.fake import FakeEngine
from tgpu.engines.local.node_processes import LocalProcesses
from tgpu.engines.node_processes import NodeProcesses
from tgpu.service.attempt_key import attempt_key
from tgpu.service.commands.submission import Submission
from tgpu.service.execution.attempts import LaunchSettings
from tgpu.service.forecast.predictions import Predictions
from tgpu.service.hardware.machines import Machine
from tgpu.service.hardware.node_hardware import Hardware, HardwareRules
from tgpu.service.recording.clock import Clock, ManualClock
from tgpu.service.recording.observer import Observer
from tgpu.service.secrets.sealing import Sealer
from tgpu.service.service import Service, ServiceSettings
from tgpu.store.api import Record, Store, StoreUnavailable
from tgpu.store.memory import MemoryStore

NODE = NodeId("local")
DEFAULT = Tenant(TenantId("default"))
_SCHEDULING = tuple(field.name for field in fields(SchedulingConfig))


def a_submission(
    *argv: str,
    job_id: str | None = None,
    tenant: str = "default",
    gpus: float = 1,
    gpu_type: str | None = None,
    name: str = "",
    options: Options | None = None,
    **fields: Any,
) -> Submission:
    request = fields.pop("request", Request(gpu_millis(gpus), gpu_type))
    return Submission(
        request=request,
        tenant_id=TenantId(tenant),
        job_id=None if job_id is None else JobId(job_id),
        options=options or Options(),
        detail=Detail(name=name, argv=argv),
        **fields,
    )


class FailingStore(MemoryStore):
    """Refuses to commit while `broken`; counts what it is asked to write."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: str | None = None
        self.commits: list[Record] = []

    async def commit(self, record: Record) -> int:
        if self.broken is not None:
            raise StoreUnavailable(self.broken)
        self.commits.append(record)
        return await super().commit(record)


class Box:
    """One open service, and short words for what tests do with it."""

    def __init__(
        self,
        service: Service,
        engine: FakeEngine | None,
        gpus: SimulatedProvider,
        others: Mapping[str, SimulatedProvider],
    ) -> None:
        self.service = service
        self.engine_or_none = engine
        self.gpus = gpus
        self.gpus_of = {NODE: gpus, **others}  # by node

    @property
    def engine(self) -> FakeEngine:
        assert self.engine_or_none is not None
        return self.engine_or_none

    async def submit(self, submission: Submission) -> str:
        return (await self.service.jobs.submit(submission)).job_ids[0]

    async def tick(self, now: int = 0) -> list[str]:
        plan = await self.service.tick(now)
        check_invariants(self.service.state)
        return [start.job_id for start in plan.starts]

    async def state_of(self, job_id: str) -> JobState:
        return (await self.service.job(job_id)).progress.state

    async def until(self, job_id: str, state: JobState) -> None:
        async def is_so() -> bool:
            return await self.state_of(job_id) is state

        await eventually(is_so, f"{job_id} {state}")
        check_invariants(self.service.state)

    async def run(self, job_id: str, now: int = 0) -> AttemptKey:
        """Start it and see it run; the key of its attempt."""
        await self.tick(now)
        await self.until(job_id, JobState.RUNNING)
        return await self.key(job_id, (await self.service.job(job_id)).progress.attempt)

    async def key(self, job_id: str, attempt: int = 1) -> AttemptKey:
        """What the engine calls an attempt of this job."""
        return attempt_key((await self.service.job(job_id)).job, attempt)


@asynccontextmanager
async def a_box(
    *,
    store: Store | None = None,
    engine: FakeEngine | None = None,
    leases: bool = False,
    gpus: str = "sim:4xA100,2xH100",
    provider: SimulatedProvider | None = None,
    tenants: Sequence[Tenant] = (DEFAULT,),
    clock: Clock | None = None,
    observers: Sequence[Observer] = (),
    hardware_rules: HardwareRules | None = None,
    predictions: Predictions | None = None,
    nodes: Mapping[str, str] | None = None,
    node_processes: Mapping[str, NodeProcesses] | None = None,
    own_engine: str = "local",
    **settings: Any,
) -> AsyncIterator[Box]:
    """A service on a clock that stands still; `leases`: without an engine. `nodes` are other
    machines on which the engine runs jobs: their names, and GPUs as `sim:2xA100`; of those in
    `node_processes` it is known who is on their GPUs. `own_engine` "": no jobs on this machine."""
    clock = clock or ManualClock()
    scheduling = {name: settings.pop(name) for name in _SCHEDULING if name in settings}
    fake = None if leases else engine or FakeEngine(clock=clock.now)
    provider = provider or SimulatedProvider(gpus)
    others = {name: SimulatedProvider(spec) for name, spec in (nodes or {}).items()}
    service = Service(
        store=store or MemoryStore(),
        engine=_as_engine(fake),
        watch=DeviceWatch(provider),
        hardware=Hardware(
            NODE,
            256_000,
            2_000_000,
            simulated=True,
            rules=hardware_rules,
            engine=own_engine,
            node_processes=LocalProcesses(),
            health_prefix="",
        ),
        machines=[
            a_machine(name, gpus, hardware_rules, (node_processes or {}).get(name))
            for name, gpus in others.items()
        ],
        clock=clock,
        accounts=SystemAccounts(),
        observers=observers,
        predictions=predictions,
        settings=replace(
            ServiceSettings(
                scheduling=replace(SchedulingConfig(PriorityWithAging()), **scheduling),
                tenants=tuple(tenants),
                launch=LaunchSettings(
                    grace_ms=1000, home="/", default_environment={"PATH": "/bin"}
                ),
                interval_seconds=0.05,
                sealer=Sealer([b"a key of thirty-two bytes, for us"[:32]]),
                monitor_seconds=60,
            ),
            **settings,
        ),
    )
    await service.open()
    try:
        yield Box(service, fake, provider, others)
    finally:
        await service.close()


def a_machine(
    name: str,
    gpus: SimulatedProvider,
    rules: HardwareRules | None = None,
    processes: NodeProcesses | None = None,
) -> Machine:
    """Another machine than the service's own, with simulated GPUs, where the engine runs jobs."""
    hardware = Hardware(
        NodeId(name),
        256_000,
        2_000_000,
        simulated=True,
        rules=rules,
        engine=FakeEngine.name,
        node_processes=processes,
    )
    return Machine(hardware, DeviceWatch(gpus))


def _as_engine(fake: FakeEngine | None) -> Engine | None:
    return fake


def ignore(_: Sequence[Event]) -> None:
    """What nobody wants to be told."""


def empty_state() -> State:
    return State()
