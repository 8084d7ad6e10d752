"""The service: the state, its writer, and the loops that keep both in step with the world."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

import msgspec
import structlog

from gpu_scheduler.core import lifecycle
from gpu_scheduler.core.cycle import schedule
from gpu_scheduler.core.errors import Conflict
from gpu_scheduler.core.events import (
    Event,
    JobMoved,
    JobsSubmitted,
    NodeSet,
    QueueSet,
    TenantSet,
    TimePassed,
)
from gpu_scheduler.core.explain import explain_class, own_reason
from gpu_scheduler.core.ids import JobId, TenantId
from gpu_scheduler.core.job import DependencyKind, Job, JobClass
from gpu_scheduler.core.lifecycle import PLACED, TERMINAL, JobState, Move
from gpu_scheduler.core.plan import Plan
from gpu_scheduler.core.policy import ChoicePolicy, Policy
from gpu_scheduler.core.reasons import Reason, ReasonCode, reason
from gpu_scheduler.core.state import Entry, State, doom_cause
from gpu_scheduler.core.tenant import Tenant
from gpu_scheduler.devices.watch import DeviceWatch
from gpu_scheduler.engines.api import Engine, EngineUnavailable
from gpu_scheduler.quota import LocalQuotaProvider, QuotaInfo, QuotaProvider
from gpu_scheduler.service.agents import Agents
from gpu_scheduler.service.attempts import Attempts, LaunchSettings
from gpu_scheduler.service.clock import Clock, ManualClock
from gpu_scheduler.service.feed import Feed
from gpu_scheduler.service.hardware import Hardware
from gpu_scheduler.service.jobs import JobCommands, not_found
from gpu_scheduler.service.observer import Observer, Observers
from gpu_scheduler.service.quota_gate import QuotaGate, quota_info
from gpu_scheduler.service.tenants import TenantCommands
from gpu_scheduler.service.writer import Decision, Writer
from gpu_scheduler.store.api import JobQuery, Store, StoredJob, StoreUnavailable

_SETTINGS_TENANT = "settings_tenant"  # documents: a tenant as the settings last had it

_log = structlog.get_logger("gpu_scheduler.service")

_FIRST_LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What the loops need to know. Made by the composition root from `settings.Settings`."""

    policy: Policy
    tenants: tuple[Tenant, ...]
    launch: LaunchSettings
    interval_seconds: float
    monitor_seconds: float
    reconcile_seconds: float = 10.0
    max_queue_size: int = 1_000_000
    cost_per_gpu_hour: float = 0.0
    agent_offline_seconds: float = 30.0


class Service:
    """One process, one writer. `engine` None: every job is a lease."""

    def __init__(
        self,
        *,
        store: Store,
        engine: Engine | None,
        watch: DeviceWatch,
        hardware: Hardware,
        clock: Clock,
        settings: ServiceSettings,
        quota: QuotaProvider | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.state = State()
        self.store = store
        self.engine = engine
        self.hardware = hardware
        self.clock = clock
        self.settings = settings
        self._opened = time.monotonic()
        self._observer = Observers(observers)
        self.feed = Feed(self.state, store)
        self.writer = Writer(self.state, store, self._published, self._observer, self.feed.publish)
        self.agents = Agents(self.writer, store, settings.agent_offline_seconds)
        self._watch = watch
        self._wake = asyncio.Event()
        self._waiters: dict[JobId, list[asyncio.Future[None]]] = {}
        self._class_reasons: dict[JobClass, Reason] = {}  # since the last commit
        self._reconciled = asyncio.Event()
        self.is_ending = False  # nobody should be kept waiting for anything any more
        self._tasks: list[asyncio.Task[None]] = []
        self._attempts: Attempts | None = None
        if engine is not None:
            self._attempts = Attempts(
                self.state, self.writer, store, engine, clock=clock, settings=settings.launch
            )
        self.jobs: JobCommands
        self.tenants = TenantCommands(self.state, self.writer, clock)
        self._policy_trouble: str | None = None
        self.gate = QuotaGate(quota or LocalQuotaProvider(self._quota_of))
        self.newest: JobId | None = None

    # -- life ------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Load, look at the hardware, take back what runs. Raises what makes a start senseless."""
        self._observer.opening(self.state)
        loaded = await self.store.open()
        for tenant in loaded.tenants:
            self.state.apply(TenantSet(0, tenant))
        for queue in loaded.queues:
            self.state.apply(QueueSet(0, queue))
        self.state.usage.update(loaded.usage)
        for node in loaded.nodes:
            self.state.apply(NodeSet(0, node))
        live = {job.job_id for job, _ in loaded.live}
        for job, progress in loaded.live:
            self.state.restore(job, progress, await self._doom_of(job, live))
        for entry in self.state.placed():
            self.gate.take(entry.job)
        self.state.counts.update(loaded.over)
        self.jobs = JobCommands(
            self.state,
            self.writer,
            self.store,
            self.clock,
            max_queue_size=self.settings.max_queue_size,
            leases_only=self.engine is None,
            last_number=loaded.last_number,
        )
        self.feed.open(loaded.last_seq)
        await self.agents.open()
        self._spawn("writer", self.writer.run)
        await self._set_tenants()
        await self._look_at_hardware()
        newest = await self.store.jobs(JobQuery(limit=1))
        self.newest = newest[0].job.job_id if newest else None
        if self._attempts is not None and self.engine is not None:
            await self.engine.open()
            self._spawn("carry out", self._attempts.carry_out)
            self._spawn("observe", self._attempts.observe)
            self._spawn("reconcile", self._keep_reconciling)
            # Whoever asks first should see what became of the jobs meanwhile. On a full disk that
            # cannot be recorded; then the service is there all the same, and says so.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_LOOK_SECONDS):
                    await self._reconciled.wait()
        self._spawn("devices", self._keep_watching)
        if not self.clock.manual:
            self._spawn("cycles", self._keep_scheduling)

    async def _doom_of(self, job: Job, live: set[JobId]) -> str | None:
        """Why a loaded job can never start: a job it needs failed just before we were killed."""
        for dependency in job.after:
            if dependency.kind is DependencyKind.OK and dependency.job_id not in live:
                stored = await self.store.job(dependency.job_id)
                ended_as = JobState.FAILED if stored is None else stored.progress.state
                if ended_as is not JobState.COMPLETED:
                    return doom_cause(dependency.job_id, ended_as)
        return None

    async def close(self) -> None:
        """Stop deciding; what was taken is recorded first. Jobs go on."""
        self.feed.close()
        self.writer.close()
        tasks, self._tasks = self._tasks, []
        writer_tasks = [task for task in tasks if task.get_name() == "writer"]
        for task in tasks:
            if task not in writer_tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.engine is not None:
            await self.engine.close()
        self._watch.close()
        await self.store.close()

    def problems(self) -> list[str]:
        """What an operator should know; empty when all is well."""
        found = []
        if self.writer.trouble:
            found.append(f"store: {self.writer.trouble}")
        if self._attempts is not None and self._attempts.trouble:
            found.append(f"engine: {self._attempts.trouble}")
        if self._policy_trouble:
            name = self.settings.policy.name
            found.append(f"scheduling policy {name}: {self._policy_trouble}; no job starts")
        if self.gate.trouble:
            found.append(f"quota provider {self.gate.name}: {self.gate.trouble}")
        snapshot = self.hardware.snapshot
        if snapshot is not None:
            if snapshot.problem:
                found.append(f"GPU driver: {snapshot.problem}")
            found += [f"GPU {gpu.index}: {gpu.problem}" for gpu in snapshot.gpus if gpu.problem]
        return found

    def uptime_seconds(self) -> float:
        return time.monotonic() - self._opened

    # -- reading ---------------------------------------------------------------------------------

    async def resolve(self, name: str) -> JobId:
        """A job's id as people write it: `last` is the newest job."""
        if name != "last":
            return JobId(name)
        if self.newest is None:
            raise not_found("last")
        return self.newest

    async def job(self, name: str) -> StoredJob:
        job_id = await self.resolve(name)
        stored = await self.store.job(job_id)
        if stored is None:
            raise not_found(job_id)
        return stored

    def reason(self, job_id: JobId) -> Reason | None:
        """Why a pending job waits; None for any other."""
        entry = self.state.entry(job_id)
        if entry is None or entry.progress.state is not JobState.PENDING:
            return None
        found = own_reason(self.state, entry) or self._class_reason(entry.queue.job_class)
        if found.code is ReasonCode.NEXT_CYCLE and entry.queue.job_class in self.gate.refused:
            return reason(
                ReasonCode.QUOTA_PROVIDER, provider=self.gate.name, tenant=entry.job.tenant_id
            )
        return found

    def _class_reason(self, job_class: JobClass) -> Reason:
        """Found once between two commits: a page of a list asks for the same class many times."""
        found = self._class_reasons.get(job_class)
        if found is None:
            found = self._class_reasons[job_class] = explain_class(self.state.ledger, job_class)
        return found

    async def wait_until_over(self, job_id: JobId, timeout_seconds: float) -> None:
        """Return when the job is over or the service ends, at the latest after the timeout."""
        if self.is_ending or self.state.entry(job_id) is None:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters = self._waiters.setdefault(job_id, [])
        waiters.append(future)
        try:
            async with asyncio.timeout(timeout_seconds):
                await future
        except TimeoutError:
            pass
        finally:
            if future in waiters:
                waiters.remove(future)
            if not waiters:
                self._waiters.pop(job_id, None)

    def stop_waiting(self) -> None:
        """Let go of everybody who waits for a job to be over: the service is about to end."""
        self.is_ending = True
        self.feed.close()
        for job_id in list(self._waiters):
            self._wake_waiters(job_id)

    def _quota_of(self, project_id: str) -> QuotaInfo | None:
        use = self.state.ledger.tenants.get(TenantId(project_id))
        return None if use is None else quota_info(use)

    # -- deciding --------------------------------------------------------------------------------

    async def tick(self, now: int) -> Plan:
        """One cycle at `now`, on the manual clock."""
        if not isinstance(self.clock, ManualClock):
            raise Conflict(
                "this service runs on the wall's clock and schedules by itself; "
                "set scheduler.clock to manual to decide by POST /schedule"
            )
        self.clock.set(now)
        return await self._cycle(now)

    async def trigger(self) -> Plan:
        """One cycle right now, for those who will not wait for the next."""
        return await self._cycle(self.clock.now())

    async def pause_gpu(self, index: int, reason: str | None) -> None:
        await self.hardware.pause(index, reason, self.writer, self.clock)

    async def _cycle(self, now: int) -> Plan:
        planned: list[JobId] = []
        seconds = 0.0

        def decide(state: State) -> Decision[Plan]:
            nonlocal seconds
            began = time.perf_counter()
            state.apply(TimePassed(now))
            plan = self.gate.plan(state, lambda closed: self._decide(state, now, closed))
            planned[:] = [start.job_id for start in plan.starts]
            events = events_of(state, plan, now)
            seconds = time.perf_counter() - began
            return Decision(plan, events)

        try:
            plan = await self.writer.do(decide, touches=None)
        except StoreUnavailable:
            for job_id in planned:
                self.gate.give(job_id)
            raise
        self._observer.cycled(plan, seconds)
        return plan

    def _decide(self, state: State, now: int, closed: Collection[JobClass]) -> Plan:
        """A policy from elsewhere that fails starts nothing; what must end, ends all the same."""
        policy = self.settings.policy
        if not isinstance(policy, ChoicePolicy):
            return schedule(state, now, policy, closed)
        try:
            plan = schedule(state, now, policy, closed)
        except Exception as error:  # another package's code may fail in any way
            trouble = f"{type(error).__name__}: {error}"
            if trouble != self._policy_trouble:  # once, not in every cycle
                _log.error("the scheduling policy failed", policy=policy.name, problem=trouble)
            self._policy_trouble = trouble
            return schedule(state, now, ChoicePolicy(policy.name, lambda *_: None))
        self._policy_trouble = None
        return plan

    # -- loops -----------------------------------------------------------------------------------

    async def _keep_scheduling(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._cycle(self.clock.now())
            except StoreUnavailable as error:
                _log.error("cannot record decisions", problem=str(error))
            await self._sleep_until_needed()

    async def _sleep_until_needed(self) -> None:
        pause = self.settings.interval_seconds
        wakes_at = self.state.wakes_at()
        if wakes_at is not None:
            pause = min(pause, max(0.01, (wakes_at - self.clock.now()) / 1000))
        try:
            async with asyncio.timeout(pause):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _keep_watching(self) -> None:
        while True:
            await asyncio.sleep(self.settings.monitor_seconds)
            try:
                await self._look_at_hardware()
            except StoreUnavailable as error:
                _log.error("cannot record a change of the GPUs", problem=str(error))

    async def _keep_reconciling(self) -> None:
        assert self._attempts is not None
        while True:
            try:
                await self._attempts.reconcile()
                self._reconciled.set()
            except EngineUnavailable as error:
                _log.warning("the engine is out of reach", problem=str(error))
            await asyncio.sleep(self.settings.reconcile_seconds)

    async def _look_at_hardware(self) -> None:
        snapshot = await self._watch.read()
        self._observer.measured(self.hardware.node_id, snapshot)
        await self.hardware.observe(snapshot, self.writer, self.clock)

    async def _set_tenants(self) -> None:
        """Take over tenants from the settings that are new or changed there since the last start.

        What was changed through the API stays as long as the settings say what they said.
        """
        before = await self.store.documents(_SETTINGS_TENANT)
        now = {tenant.tenant_id: msgspec.json.encode(tenant) for tenant in self.settings.tenants}

        def decide(state: State) -> Decision[None]:
            new = [
                tenant
                for tenant in self.settings.tenants
                if tenant.tenant_id not in state.ledger.tenants
                or before.get(tenant.tenant_id) != now[tenant.tenant_id]
            ]
            return Decision(
                None,
                [TenantSet(self.clock.now(), tenant) for tenant in new],
                documents={(_SETTINGS_TENANT, t.tenant_id): now[t.tenant_id] for t in new},
            )

        await self.writer.do(decide, touches=None)

    # -- after each commit -----------------------------------------------------------------------

    def _published(self, events: Sequence[Event]) -> None:
        self._class_reasons.clear()
        if self._attempts is not None:
            self._attempts.follow(events)
        for event in events:
            if isinstance(event, JobMoved):
                if event.progress.state not in PLACED:
                    self.gate.give(event.job_id)
                if event.progress.state in TERMINAL:
                    self._wake_waiters(event.job_id)
            elif isinstance(event, JobsSubmitted):
                self.newest = event.jobs[-1].job_id
        self._wake.set()

    def _wake_waiters(self, job_id: JobId) -> None:
        for future in self._waiters.pop(job_id, ()):
            if not future.done():
                future.set_result(None)

    def _spawn(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        async def guarded() -> None:
            """A loop that dies of a bug is logged and started anew: silence looks healthy."""
            while True:
                try:
                    await loop()
                    return
                except asyncio.CancelledError:
                    raise
                except Exception:
                    _log.exception("a loop failed and is started again", loop=name)
                    await asyncio.sleep(1.0)

        self._tasks.append(asyncio.create_task(guarded(), name=name))


def events_of(state: State, plan: Plan, now: int) -> list[Event]:
    """The moves that carry a plan out, in an order in which each is legal."""
    events: list[Event] = []
    for job_id in plan.expired:
        entry = _entry(state, job_id)
        ended = lifecycle.end(
            job_id, entry.progress, JobState.COMPLETED, now, exit_code=0, cause="its time was up"
        )
        events.append(JobMoved(now, job_id, Move.COMPLETE, ended))
    for job_id, cause in plan.doomed:
        entry = _entry(state, job_id)
        ended = lifecycle.end(job_id, entry.progress, JobState.CANCELLED, now, cause=cause)
        events.append(JobMoved(now, job_id, Move.CANCEL, ended))
    for start in plan.starts:
        entry = _entry(state, start.job_id)
        placed = lifecycle.place(start.job_id, entry.progress, start.placement, now)
        events.append(JobMoved(now, start.job_id, Move.START, placed))
        if entry.job.options.lease:
            running = lifecycle.run(start.job_id, placed, now, pid=None)
            events.append(JobMoved(now, start.job_id, Move.RUN, running))
    return events


def _entry(state: State, job_id: JobId) -> Entry:
    entry = state.entry(job_id)
    assert entry is not None  # a plan names only jobs of the state it was made on
    return entry
