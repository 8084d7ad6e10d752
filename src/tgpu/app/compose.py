"""Builds a service from settings: the one place that names stores, engines and providers."""

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tgpu.accounts.system import SystemAccounts
from tgpu.app.hooks import connect_hooks, with_hooks
from tgpu.app.refusal import CannotServe
from tgpu.app.run_as import run_as_rules
from tgpu.app.scheduling import recorded_values, scheduling_config
from tgpu.app.secret_key import load_sealer
from tgpu.core.accounting.borrowing_limits import AdjustRules
from tgpu.core.hardware.external_use import ExternalUseRules
from tgpu.core.hardware.idle import IdleRules
from tgpu.core.hardware.overuse import OveruseAction, OveruseRules
from tgpu.core.model.heat import HeatLimits
from tgpu.core.model.ids import DEFAULT_TENANT, NodeId, TenantId
from tgpu.core.model.tenant import Tenant
from tgpu.core.model.units import CPU, GPU, GPU_STEP, SECOND
from tgpu.database import make_store
from tgpu.devices.detect import Detected, node_size
from tgpu.devices.host import boot_id
from tgpu.devices.watch import DeviceWatch
from tgpu.engines.api import NO_LIMITS, AttemptLimits
from tgpu.engines.local.engine import LocalEngine
from tgpu.engines.local.node_processes import LocalProcesses
from tgpu.engines.local.startup import BOOT_ID_FILE
from tgpu.notices.dispatch import Dispatch
from tgpu.notices.make import make_dispatch
from tgpu.predictors import load_predictor
from tgpu.quota import (
    LocalQuotaProvider,
    NotConfigured,
    QuotaProvider,
    load_quota_provider,
)
from tgpu.service.commands.jobs_file import JobsFileSettings
from tgpu.service.commands.reservations import BookingLimits
from tgpu.service.execution.attempts import LaunchSettings
from tgpu.service.execution.fencing import FenceMode
from tgpu.service.forecast.estimates import EstimateSettings
from tgpu.service.forecast.predictions import Predictions
from tgpu.service.hardware.job_watch import WatchRules
from tgpu.service.hardware.node_hardware import Hardware, HardwareRules
from tgpu.service.identity.run_as import RunAsRules
from tgpu.service.recording.clock import Clock, ManualClock, SteadyClock
from tgpu.service.recording.observer import Observer
from tgpu.service.service import Service, ServiceSettings
from tgpu.service.upkeep.borrowing_limits import AdjustSettings
from tgpu.service.upkeep.disk import Disk, NoDisk
from tgpu.settings import Settings
from tgpu.settings.process import process_environ
from tgpu.store.api import Store, StoreUnavailable
from tgpu.store.sqlite import SqliteStore

# What the service's own machine is called: it must not change when the host is renamed, or the GPUs
# that running jobs hold would belong to a machine that is gone. Not its host name either:
# databases, scripts and dashboards have "local/0". Nothing else depends on it.
OWN_NODE_NAME: Final = NodeId("local")


def make_service(
    settings: Settings,
    data_dir: Path,
    detected: Detected,
    observers: Sequence[Observer] = (),
    run_as: RunAsRules | None = None,
) -> Service:
    """A service that is not open yet."""
    size = node_size(detected.provider)
    clock: Clock = ManualClock() if settings.scheduler.clock == "manual" else SteadyClock()
    environ = process_environ()
    predictions = _predictions(settings)
    hardware = Hardware(
        OWN_NODE_NAME,
        int(size.cores * settings.devices.cpu_overcommit * CPU),
        int(size.memory_mib * settings.devices.memory_overcommit),
        simulated=detected.provider.simulated,
        rules=_hardware_rules(settings),
        labels=tuple(sorted(settings.devices.labels.items())),
        engine="leases" if settings.engine.kind == "none" else settings.engine.kind,
        node_processes=LocalProcesses(),
        health_prefix="",  # as in all versions
    )
    disk = _disk(settings, data_dir)
    service = Service(
        store=_make_store(settings, disk),
        engine=with_hooks(_engine(settings, data_dir), settings),
        watch=DeviceWatch(detected.provider, settings.devices.driver_timeout_seconds),
        hardware=hardware,
        clock=clock,
        settings=ServiceSettings(
            scheduling=scheduling_config(settings, predictions),
            tenants=tuple(
                tenant.to_tenant(settings.billing.cost_per_gpu_hour) for tenant in settings.tenants
            )
            or (Tenant(DEFAULT_TENANT),),
            launch=LaunchSettings(
                grace_ms=round(settings.engine.grace_seconds * 1000),
                checkpoint_ms=round(settings.engine.checkpoint_seconds * 1000),
                home=environ.get("HOME", "/"),
                default_environment={
                    name: environ[name]
                    for name in ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ")
                    if name in environ
                },
                run_as=run_as or run_as_rules(settings),
                script_folders=tuple(map(str, settings.security.allowed_script_paths)),
                limits=_limits(settings),
                multiplexer=_multiplexer(settings),
                time_limit_ms=round(settings.jobs.time_limit_s * SECOND) or None,
                log_limit_mib=settings.jobs.log_limit_mb or None,
            ),
            boot=boot_id,
            fence_gpus=FenceMode(settings.engine.fence_gpus),
            interval_seconds=settings.scheduler.scheduling_interval_ms / 1000,
            patience_seconds=settings.database.timeout_seconds,
            monitor_seconds=settings.devices.monitor_interval_seconds,
            max_queue_size=settings.scheduler.max_queue_size,
            agent_offline_seconds=settings.agents.offline_after_seconds,
            cost_per_gpu_hour=settings.billing.cost_per_gpu_hour,
            bookings=_booking_limits(settings),
            adjust=_adjust(settings),
            watch=_watch_rules(settings, simulated=detected.provider.simulated),
            step_millis=max(GPU_STEP, math.ceil(settings.devices.allocation_precision * GPU)),
            gangs=settings.scheduler.enable_gang_scheduling,
            jobs_file=_jobs_file(settings),
            size_table=settings.files.llm_config_file,
            estimates=_estimates(settings),
            sealer=load_sealer(settings, data_dir),
            max_priority=settings.security.max_priority,
            mail_domains=_mail_domains(settings),
            recorded=recorded_values(settings),
        ),
        quota=_quota(settings),
        observers=observers,
        predictions=predictions,
        disk=disk,
        accounts=SystemAccounts(),
    )
    connect_hooks(service)
    return service


def make_notices(settings: Settings, service: Service) -> Dispatch:
    """Those who are told what the service does; not open yet."""
    try:
        return make_dispatch(settings.notices, service, process_environ())
    except ValueError as error:
        raise CannotServe(str(error)) from None


def _mail_domains(settings: Settings) -> frozenset[str] | None:
    domains = [notice.job_domains for notice in settings.notices if notice.for_jobs]
    return frozenset(domains[0]) if domains else None


def _predictions(settings: Settings) -> Predictions:
    """One that cannot be had is a problem to report, and no reason to start nothing."""
    name = settings.prediction.predictor
    return Predictions(lambda: load_predictor(name)(), name)


def _multiplexer(settings: Settings) -> str:
    engine = settings.engine
    if engine.screen and engine.tmux:
        raise CannotServe("engine.screen and engine.tmux are both true: choose one of them")
    if engine.tmux and shutil.which("tmux") is None:
        raise CannotServe("engine.tmux (--tmux): tmux is not installed; apt install tmux")
    if engine.screen and shutil.which("screen") is None:
        raise CannotServe(
            "engine.screen (--screen): GNU screen is not installed; apt install screen"
        )
    return "tmux" if engine.tmux else "screen" if engine.screen else ""


def _estimates(settings: Settings) -> EstimateSettings:
    prediction = settings.prediction
    return EstimateSettings(
        prediction.estimate_interval_seconds,
        prediction.estimate_budget_ms / 1000,
        prediction.estimate_jobs,
    )


def _limits(settings: Settings) -> AttemptLimits:
    security = settings.security
    if not security.enable_resource_limits:
        return NO_LIMITS
    memory, cpu = security.max_memory_per_job_gb, security.max_cpu_hours
    return AttemptLimits(
        memory_bytes=None if memory is None else math.ceil(memory * 1024**3),
        cpu_seconds=None if cpu is None else math.ceil(cpu * 3600),
        open_files=security.max_open_files,
    )


def _booking_limits(settings: Settings) -> BookingLimits:
    scheduler = settings.scheduler
    return BookingLimits(
        unused_ms=round(scheduler.booking_unused_minutes * 60_000) or None,
        longest_ms=round(scheduler.booking_max_hours * 3_600_000),
        ahead_ms=round(scheduler.booking_max_days_ahead * 86_400_000),
    )


def _jobs_file(settings: Settings) -> JobsFileSettings | None:
    files, jobs = settings.files, settings.jobs
    if files.jobs_file is None:
        return None
    return JobsFileSettings(
        files.jobs_file,
        interval_seconds=files.monitor_interval_s,
        tenant_id=TenantId(files.jobs_tenant),
        most_tries=jobs.max_assignment_attempts,
        wait_ms=round(jobs.assignment_retry_wait_s * SECOND),
    )


def _adjust(settings: Settings) -> AdjustSettings | None:
    quota = settings.quota
    if not quota.adjust:
        return None
    bounds = (quota.adjust_min_borrow, quota.adjust_max_borrow, quota.adjust_step)
    rules = AdjustRules(*(round(gpus * GPU) for gpus in bounds))
    return AdjustSettings(rules, quota.adjust_interval_seconds * SECOND)


def _hardware_rules(settings: Settings) -> HardwareRules:
    devices = settings.devices
    return HardwareRules(
        heat=_heat_limits(settings),
        foreign=ExternalUseRules(
            memory_millis=round(devices.memory_threshold * 1000),
            load_millis=round(devices.load_threshold * 1000),
        ),
        probation_ms=round(devices.probation_seconds * SECOND),
    )


def _watch_rules(settings: Settings, *, simulated: bool) -> WatchRules:
    devices = settings.devices
    window = devices.idle_window_seconds
    if simulated and "idle_window_seconds" not in devices.model_fields_set:
        window = 0  # simulated GPUs do nothing unless told: nobody should be warned of that
    return WatchRules(
        IdleRules(devices.idle_percent, round(window * SECOND)),
        OveruseRules(
            OveruseAction(devices.memory_overuse), round(devices.memory_grace_seconds * SECOND)
        ),
    )


def _heat_limits(settings: Settings) -> HeatLimits | None:
    scheduler = settings.scheduler
    if not scheduler.enable_thermal_aware:
        return None
    return HeatLimits(round(scheduler.thermal_threshold), round(scheduler.thermal_margin))


def _quota(settings: Settings) -> QuotaProvider | None:
    """None for the local one, which reads the service's own books."""
    name = settings.quota.provider
    if name == LocalQuotaProvider.name:
        return None
    try:
        return load_quota_provider(name, lambda _: None)
    except (ValueError, NotConfigured) as error:
        raise CannotServe(f"quota.provider: {error}") from error


def _make_store(settings: Settings, disk: Disk) -> Store:
    try:
        store = make_store(settings)
    except StoreUnavailable as error:
        raise CannotServe(str(error)) from error
    if isinstance(store, SqliteStore):
        store.make_room = disk.make_room
    return store


def _disk(settings: Settings, data_dir: Path) -> Disk:
    if settings.database.kind == "memory" and settings.engine.kind == "none":
        return NoDisk()
    return Disk(str(data_dir), settings.database.ballast_mb * 1024**2)


def _engine(settings: Settings, data_dir: Path) -> LocalEngine | None:
    if settings.engine.kind == "none":
        return None
    return local_engine(data_dir)


def local_engine(data_dir: Path) -> LocalEngine:
    # Where pids start anew without a boot, as in a container, its runtime can say so in a file.
    boot_id_file = process_environ().get("TGPU_BOOT_ID_FILE") or BOOT_ID_FILE
    return LocalEngine(data_dir / "engine", boot_id_file=Path(boot_id_file))
