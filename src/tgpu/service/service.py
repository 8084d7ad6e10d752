"""The service: the state, its writer, and the loops that keep both in step with the world."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec
import structlog

from tgpu.accounts.api import Accounts
from tgpu.core.cycle import CycleObserver
from tgpu.core.errors import Conflict, Unavailable
from tgpu.core.model.events import (
    Event,
    JobMoved,
    JobsSubmitted,
    NodeSet,
    QueueSet,
    TenantSet,
    TimePassed,
)
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import DependencyKind, Job, JobClass, name_of
from tgpu.core.model.lifecycle import PLACED, TERMINAL, JobState
from tgpu.core.model.node import GpuChoice, GpuName
from tgpu.core.model.plan import BackfillReservation, Plan
from tgpu.core.model.reasons import Reason
from tgpu.core.model.rules import PlacementRule
from tgpu.core.model.tenant import Tenant
from tgpu.core.model.units import GPU_STEP
from tgpu.core.policies.slots import ChoicePolicy, Policy
from tgpu.core.prediction.runtimes import History, Prediction
from tgpu.core.scheduling_config import CycleContext, SchedulingConfig
from tgpu.core.state.cluster_state import State, unmet_cause
from tgpu.devices.watch import DeviceWatch
from tgpu.engines.api import Engine, EngineUnavailable, Observation, Place
from tgpu.engines.file_reads import FileReads, ReadTimedOut
from tgpu.quota import LocalQuotaProvider, QuotaInfo, QuotaProvider
from tgpu.service.accounting.budget_enforcement import (
    NOTICE,
    SPEND,
    USER_DAY,
    BudgetNotice,
    BudgetNotices,
    notice_documents,
    read_spends,
    read_user_days,
    stops,
)
from tgpu.service.accounting.metering import METER, read_meters
from tgpu.service.accounting.quota_gate import QuotaGate, quota_info
from tgpu.service.accounting.receipts import Receipt, Receipts
from tgpu.service.commands.editing import Editing
from tgpu.service.commands.gpu_choice import chosen_gpu
from tgpu.service.commands.job_numbers import last_number
from tgpu.service.commands.jobs import JobCommands, not_found
from tgpu.service.commands.jobs_file import JobsFileSettings, JobsFileWatch
from tgpu.service.commands.rerun_selection import RerunSelections
from tgpu.service.commands.reservations import DEFAULT_LIMITS, BookingCommands, BookingLimits
from tgpu.service.commands.selection import Selection
from tgpu.service.commands.selection_commands import Changed, SelectionChange, SelectionCommands
from tgpu.service.commands.tenants import TenantCommands
from tgpu.service.execution import pairing
from tgpu.service.execution.attempts import Attempts, LaunchSettings
from tgpu.service.execution.fencing import FenceMode, GpuFences
from tgpu.service.execution.log_sizes import LogSizes
from tgpu.service.execution.plan_commit import PlanCommit, prepare_commit
from tgpu.service.execution.urgent_stops import Cancelled, UrgentStops
from tgpu.service.feed.feed import Feed
from tgpu.service.forecast.estimates import DEFAULTS as ESTIMATES
from tgpu.service.forecast.estimates import Estimates, EstimateSettings
from tgpu.service.forecast.predictions import Predictions
from tgpu.service.forecast.sizes import Sizes
from tgpu.service.hardware.agent_nodes import AgentNodes
from tgpu.service.hardware.agents import Agents
from tgpu.service.hardware.engine_nodes import EngineNodes
from tgpu.service.hardware.gpu_monitor import GpuMonitor
from tgpu.service.hardware.gpu_use import GpuUse
from tgpu.service.hardware.job_watch import WatchRules
from tgpu.service.hardware.machines import Machine, hardware_of
from tgpu.service.hardware.newest_readings import NewestReadings
from tgpu.service.hardware.node_hardware import Hardware
from tgpu.service.identity.ownership import Sight
from tgpu.service.identity.run_as import JobUsers
from tgpu.service.prepare import Preparation
from tgpu.service.reads.cluster_reads import ClusterReads
from tgpu.service.recording.by_whom import CANCELLED
from tgpu.service.recording.clock import Clock, ManualClock
from tgpu.service.recording.observer import Observer, Observers
from tgpu.service.recording.recorder import Recorder
from tgpu.service.recording.writer import Decision, StateApart, Writer
from tgpu.service.secrets.sealing import KEY_BYTES, Sealer
from tgpu.service.secrets.sealing_key import key_is_recorded
from tgpu.service.upkeep.borrowing_limits import Adjuster, AdjustSettings
from tgpu.service.upkeep.clock_watch import ClockWatch
from tgpu.service.upkeep.disk import LOOK_SECONDS, Disk, NoDisk
from tgpu.service.upkeep.request_profiles import KIND as MIX
from tgpu.service.upkeep.request_profiles import MixLearner, read_mix
from tgpu.service.upkeep.settings_record import RecordedValues, record_settings
from tgpu.service.why import Reasons
from tgpu.store.api import Decider, JobQuery, LoadedState, Store, StoredJob, StoreUnavailable

_SETTINGS_TENANT = "settings_tenant"  # documents: a tenant as the settings last had it

_log = structlog.get_logger("gpu_scheduler.service")

_FIRST_LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What the loops need to know. Made by the composition root from `settings.Settings`."""

    scheduling: SchedulingConfig
    tenants: tuple[Tenant, ...]
    launch: LaunchSettings
    interval_seconds: float
    monitor_seconds: float
    reconcile_seconds: float = 10.0
    max_queue_size: int = 1_000_000
    cost_per_gpu_hour: float = 0.0
    agent_offline_seconds: float = 30.0
    gangs: bool = True  # whether jobs may have several workers
    bookings: BookingLimits = DEFAULT_LIMITS
    adjust: AdjustSettings | None = None  # None: borrowing limits stay as they were set
    step_millis: int = GPU_STEP  # parts of GPUs come in steps of this
    watch: WatchRules | None = None  # None: nobody looks at what jobs do with their GPUs
    jobs_file: JobsFileSettings | None = None  # None: no file is watched
    size_table: Path | None = None  # of models
    estimates: EstimateSettings = ESTIMATES
    max_priority: int | None = None  # that users may give their jobs; None: any
    sealer: Sealer | None = None  # None: with a key of its own, where nothing outlives it
    mail_domains: frozenset[str] | None = None  # that jobs may have mail sent to; empty: all
    fence_gpus: FenceMode = FenceMode.OFF
    boot: Callable[[], str] = str  # another word whenever the machine was started
    patience_seconds: float = 10.0  # that a caller is kept waiting for the store
    # The settings by which is decided, for the journal; none: nothing is put on record.
    recorded: RecordedValues = field(default_factory=dict)


class Service:
    """One process, one writer. `engine` None: every job is a lease."""

    newest: JobId | None = None
    reruns: RerunSelections  # once it is open
    is_ending = False  # nobody should be kept waiting for anything any more
    _policy_trouble: str | None = None
    engine_problems: Callable[[], list[str]] = staticmethod(list)  # of what stands around it
    # What runs jobs on the machine of an agent; "" where nothing does.
    engine_of: Callable[[str], str] = staticmethod(lambda name: "")
    _promises: tuple[BackfillReservation, ...] = ()  # of the last cycle that is on record
    editing: Editing  # once it is open, as `jobs`
    _urgent: UrgentStops | None = None  # while it is open, where there is an engine

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
        predictions: Predictions | None = None,
        disk: Disk | None = None,
        machines: Sequence[Machine] = (),
        accounts: Accounts | None = None,
    ) -> None:
        """`hardware` and `watch` are of the machine that this runs on, `machines` of others whose
        GPUs are read from here; `accounts` are the users that jobs can run as."""
        self.state = State()
        settings.scheduling.set_up(self.state)
        self.reads = ClusterReads(self.state)
        self.store = store
        self.engine = engine
        self.hardware = hardware
        self.clock = clock
        self.settings = settings
        self._opened = time.monotonic()
        self.gpu_use, self.newest_readings = GpuUse(), NewestReadings()
        self.predictions = predictions or Predictions(History)
        self.feed = Feed(self.state, store)
        self.estimates = Estimates(
            self.state,
            self._context,
            self.predictions,
            clock,
            settings.estimates,
            feed=self.feed,
            scored=lambda told: self._observer.start_scored(told),
        )
        self._observer = Observers(
            (self.gpu_use, self.newest_readings, self.predictions, self.estimates, *observers)
        )
        self.writer = Writer(
            self.state,
            store,
            self._published,
            self._observer,
            self.feed.publish,
            patience_seconds=settings.patience_seconds,
        )
        self._asked: set[asyncio.Task[Plan]] = set()  # cycles that somebody waits for
        self.machines = (Machine(hardware, watch), *machines)
        self.agents = Agents(
            self.writer,
            store,
            settings.agent_offline_seconds,
            own=[each.node_id for each in hardware_of(self.machines)],
        )
        self.receipts = Receipts(store)
        self.notices = BudgetNotices()
        self._adjuster: Adjuster | None = None
        if settings.adjust is not None:
            self._adjuster = Adjuster(self.state, self.writer, settings.adjust)
        self.gpu_monitor = GpuMonitor(
            self.state,
            self.machines,
            self.writer,
            clock=clock,
            observer=self._observer,
            rules=settings.watch,
            grace_seconds=settings.launch.grace_ms / 1000,
            others=lambda: [*self.agent_nodes.all(), *self.engine_nodes.all()],
        )
        if engine is not None:
            for each in hardware_of(self.machines):
                each.ownership.log_dir = engine.log_dir
        self._disk_reads, self.log_sizes = FileReads(), LogSizes()
        self.disk = disk or NoDisk()
        self._wake = asyncio.Event()
        self._waiters: dict[JobId, list[asyncio.Future[None]]] = {}
        self._reconciled = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.ended = asyncio.Event()  # by itself: see `ended_because`
        self._attempts: Attempts | None = None
        self.sealer = settings.sealer or Sealer([secrets.token_bytes(KEY_BYTES)])
        self.run_as = JobUsers(self.state, settings.launch.run_as, accounts)
        if engine is not None:
            self._attempts = Attempts(
                self.state,
                self.writer,
                store,
                engine,
                clock=clock,
                settings=settings.launch,
                run_as=self.run_as,
                receipts=self.receipts,
                gpu_monitor=self.gpu_monitor,
                sealer=self.sealer,
                high_water=lambda: (self.feed.last_seq, self.jobs.last_number),
                fences=self.fences,
            )
            for each in hardware_of(self.machines):
                each.ownership.strangers = self._attempts.strangers.running.keys
        self.jobs: JobCommands
        self.sizes = Sizes(
            self.state, self.gpu_monitor.memory_history, settings.size_table, settings.step_millis
        )
        self.jobs_file: JobsFileWatch | None = None
        if settings.jobs_file is not None:
            self.jobs_file = JobsFileWatch(
                settings.jobs_file,
                self.state,
                store,
                clock,
                run_as=self.run_as,
            )
        self.tenants = TenantCommands(self.state, self.writer, clock, self.run_as)
        self.bookings = BookingCommands(self.state, self.writer, clock, settings.bookings)
        self.gate = QuotaGate(quota or LocalQuotaProvider(self._quota_of))
        self.reasons = Reasons(
            self.state,
            self.gate,
            settings.scheduling.policy,
            settings.scheduling.policies,
            self._dry_run,
        )
        self.clock_watch = ClockWatch(
            clock,
            self.writer,
            self._observer,
            boot=settings.boot,
            followers=[
                *hardware_of(self.machines),
                self.agent_nodes,
                self.engine_nodes,
                *([] if self._adjuster is None else [self._adjuster]),
            ],
        )

    # -- life ------------------------------------------------------------------------------------

    @cached_property
    def agent_nodes(self) -> AgentNodes:
        """The machines of agents as nodes."""
        return AgentNodes(
            self.agents,
            self.writer,
            self.store,
            self.clock,
            observer=self._observer,
            engine_of=lambda name: self.engine_of(name),
            rules=self.hardware.rules,
        )

    @cached_property
    def recorder(self) -> Recorder:
        return Recorder(self.writer)

    @cached_property
    def engine_nodes(self) -> EngineNodes:
        """The nodes that the engine itself knows of, where it does."""
        return EngineNodes(
            self.engine,
            self.writer,
            self.store,
            self.clock,
            observer=self._observer,
            is_taken=self._is_of_another,
            rules=self.hardware.rules,
        )

    def _is_of_another(self, name: str) -> bool:
        own = any(each.node_id == name for each in hardware_of(self.machines))
        return own or self.agent_nodes.get(name) is not None

    @cached_property
    def fences(self) -> GpuFences:
        """What keeps jobs from the GPUs of others."""
        return GpuFences(self.settings.fence_gpus, self.hardware)

    async def open(self) -> None:
        """Load, look at the hardware, take back what runs. Raises what makes a start senseless."""
        self._observer.opening(self.reads)
        loaded = await self.store.open()
        loaded = replace(loaded, last_number=await last_number(self.store, loaded))
        last = await self._find_partner(loaded)
        await self._restore(loaded)
        self.jobs = JobCommands(
            self.state,
            self.writer,
            self.store,
            self.clock,
            max_queue_size=self.settings.max_queue_size,
            leases_only=self.engine is None,
            last_number=last,
            step_millis=self.settings.step_millis,
            gangs=self.settings.gangs,
            prepare=Preparation(
                self.sizes, self.settings.launch, self.settings.mail_domains, self.engine
            ),
            refuse=self.disk.refuse_when_low,
            sealer=self.sealer,
            key_recorded=await key_is_recorded(self.store, self.sealer),
        )
        self.reruns = RerunSelections(self.jobs, self.store)
        self.editing = Editing(self.jobs, self.state, self.writer, self.store, self.clock)
        await self._open_for_full_disks()
        self.feed.open(loaded.last_seq)
        self.writer.last_decision = loaded.last_decision
        await self.agents.open()
        await self.receipts.open()
        await self.estimates.open(self.store)
        self._spawn("writer", self.writer.run)
        await self._set_tenants()
        await record_settings(self.settings.recorded, self.store, self.writer, self.clock)
        await self.gpu_monitor.open(self.store)
        with contextlib.suppress(StoreUnavailable):  # it is tried again
            await self.clock_watch.look()  # before anything is decided on the time
        await self.gpu_monitor.look()
        await self.agent_nodes.look()
        await self.engine_nodes.look()
        await self._retire_unknown_nodes()
        newest = await self.store.jobs(JobQuery(limit=1))
        self.newest = name_of(newest[0].job) if newest else None
        if self._attempts is not None and self.engine is not None:
            await self._attempts.open()
            self._spawn("carry out", self._attempts.carry_out)
            self._spawn("observe", self._attempts.observe)
            self._spawn("reconcile", self._keep_reconciling)
            # Whoever asks first should see what became of the jobs meanwhile. On a full disk that
            # cannot be recorded; then the service is there all the same, and says so.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_LOOK_SECONDS):
                    await self._reconciled.wait()
        self._spawn("devices", self._keep_watching)
        self._spawn("clock", self.clock_watch.run)
        if self.clock.manual:  # whoever says what time it is wants the same answers each time
            await self.predictions.load(self.store)
        self._spawn("predictions", lambda: self.predictions.run(self.store))
        self._spawn("mix", self._keep_learning)
        if not self.clock.manual:
            self._spawn("cycles", self._keep_scheduling)
            self._spawn("estimates", lambda: self.estimates.run(self.writer))
        if self.jobs_file is not None:
            await self.jobs_file.open()
            self._spawn("jobs file", self._keep_reading_jobs_file)
            self._spawn("jobs file events", self.jobs_file.follow)

    async def _find_partner(self, loaded: LoadedState) -> int:
        """Before anything else is read, mended or started: the highest job number so far."""
        if self.engine is None or self._attempts is None:
            return loaded.last_number
        number = await pairing.check(self.store, self.engine, loaded)
        await self.engine.open()
        self._attempts.epoch = await pairing.take_over(self.store, self.engine)
        # Known before the GPUs are looked at: what runs there is not ours to sweep away.
        await self._attempts.strangers.take_out(
            [seen for seen in await self.engine.observe() if not seen.is_over]
        )
        return number

    async def _restore(self, loaded: LoadedState) -> None:
        """The state as the store has it, at the time it had."""
        for tenant in loaded.tenants:
            self.state.apply(TenantSet(0, tenant))
        for queue in loaded.queues:
            self.state.apply(QueueSet(0, queue))
        self.state.usage.update(loaded.usage)
        for node in loaded.nodes:
            self.state.apply(NodeSet(0, node))
        await self.clock_watch.open(self.store)
        await self._open_documents()
        live = {job.job_id for job, _ in loaded.live}
        for job, progress in loaded.live:
            self.state.restore(job, progress, await self._unsatisfiable_cause(job, live))
        measured = read_meters(await self.store.documents(METER))
        self.state.restore_meters(measured, self.clock.now())
        self.state.apply(TimePassed(self.clock.now()))  # whose budget is used up shows at once
        for entry in self.state.placed():
            self.gate.take(entry.job)
        self.state.counts.update(loaded.over)

    async def _unsatisfiable_cause(self, job: Job, live: set[JobId]) -> str | None:
        """Why a loaded job can never start: a job it needs failed just before we were killed."""
        for dependency in job.after:
            if dependency.kind is DependencyKind.OK and dependency.job_id not in live:
                stored = await self.store.job(dependency.job_id)
                ended_as = JobState.FAILED if stored is None else stored.progress.state
                if ended_as is not JobState.COMPLETED:
                    return unmet_cause(dependency.job_id, ended_as)
        return None

    async def _retire_unknown_nodes(self) -> None:
        """Nodes of the store that nothing is known of any more: a job placed there would run on
        another machine. What they hold stays on record until it is over."""
        known = {hardware.node_id for hardware in self.gpu_monitor.known_hardware()}

        def decide(state: State) -> Decision[None]:
            left = [use.node for name, use in state.ledger.nodes.items() if name not in known]
            now = self.clock.now()
            return Decision(None, [NodeSet(now, replace(node, engine="")) for node in left])

        if not self.state.ledger.nodes.keys() <= known:
            await self.writer.do(decide, touches=None)

    async def close(self) -> None:
        """Stop deciding; what was taken is recorded first. Jobs go on."""
        self.is_ending = True
        self.feed.close()
        self.writer.close()
        if self._urgent is not None:
            await self._urgent.close()
        tasks, self._tasks = self._tasks, []
        writer_tasks = [task for task in tasks if task.get_name() == "writer"]
        others = [task for task in tasks if task not in writer_tasks]
        for task in (*others, *self._asked):
            task.cancel()
        await asyncio.gather(*others, *self._asked, return_exceptions=True)
        await self._end_writer(writer_tasks)
        if self.engine is not None:
            await self.engine.close()
        for machine in self.machines:
            machine.watch.close()
        await self.store.close()

    async def _end_writer(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """What was taken is recorded first, unless the store hangs."""
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=self.settings.patience_seconds)
        for task in late:
            _log.error("the store hangs: what was being recorded shows at the next start")
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def problems(self) -> list[str]:
        """What an operator should know; empty when all is well."""
        found = []
        if (problem := self.writer.problem) is not None:
            found.append(f"store: {problem}")
        if self._attempts is not None and self._attempts.trouble:
            found.append(f"engine: {self._attempts.trouble}")
        if self._attempts is not None:
            found += self._attempts.strangers.problems()
        found += self.engine_problems()
        if self._policy_trouble:
            name = self.settings.scheduling.policy.name
            found.append(f"scheduling policy {name}: {self._policy_trouble}; no job starts")
        if self.gate.trouble:
            found.append(f"quota provider {self.gate.name}: {self.gate.trouble}")
        found += self.disk.problems()
        if self._urgent is not None:
            found += self._urgent.problems()
        found += self.gpu_monitor.problems()
        found += self.engine_nodes.problems()
        found += self.bookings.problems()
        found += self.sizes.problems()
        if self.jobs_file is not None:
            found += self.jobs_file.problems()
        found += self.predictions.problems()
        found += self.clock_watch.problems()
        found += self.estimates.problems()
        return found

    def uptime_seconds(self) -> float:
        return time.monotonic() - self._opened

    # -- reading ---------------------------------------------------------------------------------

    async def resolve(self, name: str) -> JobId:
        """A job's id as people write it: `last` is the newest job, or its whole array."""
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

    def reason(self, job_id: JobId, sight: Sight | None = None) -> Reason | None:
        """Why a pending job waits; None for any other. See `Reasons.reason`."""
        return self.reasons.reason(job_id, self.clock.now(), sight)

    def place_of(self, job_id: JobId) -> Place | None:
        """Where the engine has put an attempt that it bound itself; None where we placed it."""
        entry = self.state.entry(job_id)
        return None if entry is None or self._attempts is None else self._attempts.place_of(entry)

    @property
    def stuck_reads(self) -> int:
        """How many reads of files do not come back: of logs, and looks at the disk."""
        return self._disk_reads.stuck + (0 if self.engine is None else self.engine.stuck_reads)

    def standing_of(self, job_id: JobId) -> Observation | None:
        """What the engine says of an attempt that it has not started yet, or cannot reach."""
        entry = self.state.entry(job_id)
        if entry is None or self._attempts is None:
            return None
        return self._attempts.standing_of(entry)

    def prediction(self, stored: StoredJob) -> Prediction | None:
        """How long a job that is not over will run in all; None where nothing can be said."""
        return self.predictions.of_job(stored, self.clock.now())

    async def look_ahead(self) -> None:
        """Before estimates are read: on a clock that stands still they are made when asked for."""
        await self.estimates.fresh(self.writer)

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
                "this service uses the wall clock and schedules by itself; set scheduler.clock "
                "to manual to use POST /schedule"
            )
        self.clock.set(now)
        return await self._in_time(self._cycle(now))

    async def trigger(self) -> Plan:
        """One cycle right now, for those who will not wait for the next."""
        return await self._in_time(self._cycle(self.clock.now()))

    @property
    def ended_because(self) -> str | None:
        """Why it ended by itself: state and store are apart. None: it did not."""
        apart = self.writer.apart
        return apart.cause if self.ended.is_set() and apart is not None else None

    async def _in_time(self, cycle: Coroutine[Any, Any, Plan]) -> Plan:
        """Somebody waits for this one. It goes on where they cannot be kept any longer."""
        task = asyncio.create_task(cycle)
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        done, _ = await asyncio.wait({task}, timeout=self.settings.patience_seconds)
        if done:
            return task.result()
        raise self.writer.unknown()

    async def adopt(
        self, pid: int, *, tenant_id: TenantId, queue: str, name: str, node: str | None = None
    ) -> JobId:
        """A lease of the GPUs that a process is on, for as long as it runs. `node` is where it
        runs, for numbers that mean processes of several."""
        await self.gpu_monitor.look()  # it may have come to its GPU just now
        job_id = await self.gpu_monitor.adoption.adopt(
            self.jobs, self.state, pid, node=node, tenant_id=tenant_id, queue=queue, name=name
        )
        await self.gpu_monitor.look()  # whoever asks now sees whose it is
        return job_id

    async def cancel(self, job_id: JobId) -> Cancelled:
        """End a job for good; one that runs also while the store cannot record it."""
        try:
            return Cancelled(await self.jobs.cancel(job_id))
        except StoreUnavailable as error:
            if self._urgent is None:
                raise
            return await self._urgent.stop(job_id, error)

    @property
    def selections(self) -> SelectionCommands:
        return SelectionCommands(self.state, self.store, self.writer, self.clock)

    async def cancel_selected(
        self,
        job_ids: Sequence[JobId],
        selection: Selection,
        cause: str = CANCELLED,
    ) -> Changed:
        """The same of many, in one commit; of those that run also while the store fails."""
        try:
            return await self.selections.change(
                SelectionChange.CANCEL, job_ids, selection, cause=cause
            )
        except StoreUnavailable as error:
            if self._urgent is None:
                raise
            return await self._urgent.stop_all(job_ids, selection.states, error)

    async def hold_node(self, why: str) -> None:
        """Start no further jobs on this machine, as `tgpu drain` does, which undoes it too."""
        node_id = self.hardware.node_id
        use = self.state.ledger.nodes.get(node_id)
        for gpu in () if use is None else use.node.gpus:
            if gpu.paused is None:
                await self.pause_gpu(GpuName(node_id, gpu.index), f"drained: {why}")

    async def pause_gpu(self, choice: GpuChoice, reason: str | None) -> GpuName:
        """Give a GPU no new jobs, or again (None). The one that was meant."""
        gpu = chosen_gpu(self.state.ledger, choice)
        hardware = self.hardware_of(gpu.node_id)
        if hardware is None:
            raise Unavailable(f"the hardware of node {gpu.node_id} is not known yet")
        await hardware.pause(gpu.gpu_index, reason, self.writer, self.clock)
        return gpu

    def hardware_of(self, node_id: str) -> Hardware | None:
        """Of a node that readings come from."""
        own = (each for each in hardware_of(self.machines) if each.node_id == node_id)
        known = next(own, None) or self.agent_nodes.get(node_id)
        return known or self.engine_nodes.get(node_id)

    async def _cycle(self, now: int) -> Plan:
        await self.bookings.mend(now)
        if self._adjuster is not None:
            await self._adjuster.adjust(now)
        planned: list[JobId] = []
        enacted = PlanCommit()
        notices: dict[TenantId, BudgetNotice] = {}
        seconds = 0.0

        def decide(state: State) -> Decision[Plan]:
            nonlocal seconds, enacted, notices, now
            began = time.perf_counter()
            if not self.clock.manual:  # it may have been set while this waited for its turn
                now = self.clock.now()
            state.apply(TimePassed(now))
            self.reasons.forget()  # time alone uses up a budget, or renews it
            plan = self.gate.plan(
                state, lambda refused_classes: self._decide(state, now, refused_classes)
            )
            planned[:] = [start.job_id for start in plan.starts]
            enacted = prepare_commit(state, plan, now)
            enacted.events += stops(state, now, enacted.events)
            notices = self.notices.due(state, now)
            enacted.documents |= notice_documents(notices)
            seconds = time.perf_counter() - began
            documents = enacted.documents | self.receipts.documents(enacted.receipts)
            applied = partial(self._decided, plan, enacted.receipts, notices)
            return Decision(plan, enacted.events, documents=documents, applied=applied)

        try:
            # Its outcome is waited for: what the quota's provider counts depends on it.
            plan = await self.writer.do(decide, touches=None, is_patient=True, by=Decider.CYCLE)
        except StoreUnavailable:
            for job_id in planned:
                self.gate.give(job_id)
            raise
        self._observer.cycled(plan, seconds)
        return plan

    def _decided(
        self, plan: Plan, receipts: Sequence[Receipt], notices: Mapping[TenantId, BudgetNotice]
    ) -> None:
        """A plan is on record."""
        self.receipts.keep(receipts)
        self.notices.give(notices, self.state)
        for tenant_id, notice in notices.items():
            self._observer.budget_reached(tenant_id, notice.percent)
        self._promises = plan.reservations

    def _decide(self, state: State, now: int, refused_classes: Collection[JobClass]) -> Plan:
        """A policy from elsewhere that fails starts nothing; what must end, ends all the same."""
        policy = self.settings.scheduling.policy
        if self.disk.is_low:  # what starts now would fail, again and again, and write that down
            return self._schedule(state, now, ChoicePolicy(policy.name, lambda *_: None), ())
        if not isinstance(policy, ChoicePolicy):
            return self._schedule(state, now, policy, refused_classes)
        try:
            plan = self._schedule(state, now, policy, refused_classes)
        except Exception as error:  # another package's code may fail in any way
            trouble = f"{type(error).__name__}: {error}"
            if trouble != self._policy_trouble:  # once, not in every cycle
                _log.error("the scheduling policy failed", policy=policy.name, problem=trouble)
            self._policy_trouble = trouble
            return self._schedule(state, now, ChoicePolicy(policy.name, lambda *_: None), ())
        self._policy_trouble = None
        return plan

    def _context(self) -> CycleContext:
        """How the next cycle would decide, for those who look further ahead."""
        return CycleContext(self.settings.scheduling, self._promises, self.gate.refused)

    def _dry_run(self, now: int, policy: Policy, observer: CycleObserver | None) -> Plan:
        """What a cycle would decide now; nothing comes of it."""
        return self._schedule(self.state, now, policy, self.gate.refused, observer)

    def _schedule(
        self,
        state: State,
        now: int,
        policy: Policy,
        refused_classes: Collection[JobClass],
        observer: CycleObserver | None = None,
    ) -> Plan:
        config = self.settings.scheduling.by(policy)
        return config.decide(state, now, self._promises, refused_classes, observer)

    # -- loops -----------------------------------------------------------------------------------

    async def _keep_scheduling(self) -> None:
        while True:
            self._wake.clear()
            try:
                if self.writer.breaker.is_closed:  # else nothing could be recorded
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
            await asyncio.sleep(self.gpu_monitor.pause_seconds(self.settings.monitor_seconds))
            try:
                await self.gpu_monitor.look()
                await self.agent_nodes.look()
                await self.engine_nodes.look()
            except StoreUnavailable as error:
                _log.error("cannot record a change of the GPUs", problem=str(error))

    async def _open_for_full_disks(self) -> None:
        if self.engine is not None and self._attempts is not None:
            epoch = self._attempts.epoch
            self._urgent = UrgentStops(
                self.state, self.engine, self.writer, self.jobs.cancel, epoch
            )
        await self._look_at_disk()
        self._spawn("disk", self._keep_looking_at_disk)

    async def _keep_looking_at_disk(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._look_at_disk()

    async def _look_at_disk(self) -> None:
        with contextlib.suppress(ReadTimedOut):  # health says it: what was known last is kept
            await self._disk_reads.read(":disk", self.disk.look)

    async def _keep_reconciling(self) -> None:
        assert self._attempts is not None
        while True:
            try:
                await self._attempts.reconcile()
                self._reconciled.set()
            except EngineUnavailable as error:
                _log.warning("the engine cannot be reached", problem=str(error))
            await asyncio.sleep(self.settings.reconcile_seconds)

    async def _keep_reading_jobs_file(self) -> None:
        assert self.jobs_file is not None
        await self.jobs_file.run(self.jobs)

    async def _open_documents(self) -> None:
        self.state.budgets.load(read_spends(await self.store.documents(SPEND)))
        self.state.user_days.load(read_user_days(await self.store.documents(USER_DAY)))
        self.notices.load(await self.store.documents(NOTICE))
        if self._adjuster is not None:
            await self._adjuster.open(self.store)
        await self.bookings.open(self.store)
        self.state.ledger.request_profile = read_mix(await self.store.documents(MIX))

    async def _keep_learning(self) -> None:
        """What jobs usually ask for; on a manual clock it stays as it is, for the same answers."""
        if (
            self.settings.scheduling.placement is PlacementRule.FRAGMENTATION
            and not self.clock.manual
        ):
            await MixLearner(self.state, self.store, self.writer, self.clock).run()

    async def _set_tenants(self) -> None:
        """Take over tenants from the settings that are new or changed there since the last start.

        What was changed through the API stays as long as the settings say what they said.
        """
        # As values, not as text: a version that knows more of tenants writes more of them down.
        before = {
            name: msgspec.json.decode(text, type=Tenant)
            for name, text in (await self.store.documents(_SETTINGS_TENANT)).items()
        }
        now = {tenant.tenant_id: msgspec.json.encode(tenant) for tenant in self.settings.tenants}

        def decide(state: State) -> Decision[None]:
            new = [
                tenant
                for tenant in self.settings.tenants
                if tenant.tenant_id not in state.ledger.tenants
                or before.get(tenant.tenant_id) != tenant
            ]
            self.run_as.check_unique(state, new)
            return Decision(
                None,
                [TenantSet(self.clock.now(), tenant) for tenant in new],
                documents={(_SETTINGS_TENANT, t.tenant_id): now[t.tenant_id] for t in new},
            )

        await self.writer.do(decide, touches=None)

    # -- after each commit -----------------------------------------------------------------------

    def _published(self, events: Sequence[Event]) -> None:
        self.reasons.forget()
        if self._attempts is not None:
            self._attempts.follow(events)
        for event in events:
            if isinstance(event, JobMoved):
                if event.progress.state not in PLACED:
                    self.gate.give(event.job_id)
                if event.progress.state in TERMINAL:
                    self._wake_waiters(event.job_id)
            elif isinstance(event, JobsSubmitted):
                self.newest = name_of(event.jobs[-1])
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
                    if self.writer.apart is not None:
                        self._end(self.writer.apart)
                        return  # a new start is clean, going on is not
                    _log.exception("a background task failed and is restarted", loop=name)
                    await asyncio.sleep(1.0)

        self._tasks.append(asyncio.create_task(guarded(), name=name))

    def _end(self, apart: StateApart) -> None:
        if not self.is_ending:
            _log.critical(
                "the service exits, to restart from its database; running jobs continue",
                problem=apart.cause,
            )
            self.stop_waiting()
            self.ended.set()
