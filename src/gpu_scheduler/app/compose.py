"""Makes a service out of settings: the one place that names stores, engines and providers."""

import os
import pwd
from collections.abc import Sequence
from pathlib import Path

from gpu_scheduler.app.refusal import CannotServe
from gpu_scheduler.core.heat import HeatLimits
from gpu_scheduler.core.ids import DEFAULT_TENANT, NodeId
from gpu_scheduler.core.policy import Policy
from gpu_scheduler.core.tenant import Tenant
from gpu_scheduler.core.units import CPU
from gpu_scheduler.database import make_store
from gpu_scheduler.devices.detect import Detected, node_size
from gpu_scheduler.devices.watch import DeviceWatch
from gpu_scheduler.engines.api import Engine
from gpu_scheduler.engines.local.engine import LocalEngine
from gpu_scheduler.engines.local.startup import BOOT_ID_FILE
from gpu_scheduler.policies import load_policy
from gpu_scheduler.quota import (
    LocalQuotaProvider,
    NotConfigured,
    QuotaProvider,
    load_quota_provider,
)
from gpu_scheduler.service.attempts import LaunchSettings
from gpu_scheduler.service.clock import Clock, ManualClock, WallClock
from gpu_scheduler.service.hardware import Hardware
from gpu_scheduler.service.observer import Observer
from gpu_scheduler.service.service import Service, ServiceSettings
from gpu_scheduler.settings import Settings
from gpu_scheduler.settings.process import process_environ
from gpu_scheduler.store.api import Store, StoreUnavailable

# One machine, one name: it must not change when the host is renamed, or the GPUs that running
# jobs hold would belong to a machine that is gone.
LOCAL_NODE = NodeId("local")


def make_service(
    settings: Settings,
    data_dir: Path,
    detected: Detected,
    observers: Sequence[Observer] = (),
) -> Service:
    """A service that is not open yet."""
    size = node_size(detected.provider)
    clock: Clock = ManualClock() if settings.scheduler.clock == "manual" else WallClock()
    environ = process_environ()
    hardware = Hardware(
        LOCAL_NODE,
        int(size.cores * settings.devices.cpu_overcommit * CPU),
        int(size.memory_mib * settings.devices.memory_overcommit),
        simulated=detected.provider.simulated,
        heat_limits=_heat_limits(settings),
    )
    return Service(
        store=_make_store(settings),
        engine=_engine(settings, data_dir),
        watch=DeviceWatch(detected.provider, settings.devices.driver_timeout_seconds),
        hardware=hardware,
        clock=clock,
        settings=ServiceSettings(
            policy=_policy(settings),
            tenants=tuple(tenant.to_tenant() for tenant in settings.tenants)
            or (Tenant(DEFAULT_TENANT),),
            launch=LaunchSettings(
                grace_ms=round(settings.engine.grace_seconds * 1000),
                home=environ.get("HOME", "/"),
                default_environment={
                    name: environ[name]
                    for name in ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ")
                    if name in environ
                },
                run_as_uid=_run_as_uid(settings),
            ),
            interval_seconds=settings.scheduler.scheduling_interval_ms / 1000,
            monitor_seconds=settings.devices.monitor_interval_seconds,
            max_queue_size=settings.scheduler.max_queue_size,
            agent_offline_seconds=settings.agents.offline_after_seconds,
            cost_per_gpu_hour=settings.billing.cost_per_gpu_hour,
        ),
        quota=_quota(settings),
        observers=observers,
    )


def _heat_limits(settings: Settings) -> HeatLimits | None:
    scheduler = settings.scheduler
    if not scheduler.enable_thermal_aware:
        return None
    return HeatLimits(round(scheduler.thermal_threshold), round(scheduler.thermal_margin))


def _policy(settings: Settings) -> Policy:
    try:
        return load_policy(settings.scheduler.policy, settings.scheduler.aging_seconds)
    except ValueError as error:
        raise CannotServe(f"scheduler.policy: {error}") from error


def _quota(settings: Settings) -> QuotaProvider | None:
    """None for the local one, which reads the service's own books."""
    name = settings.quota.provider
    if name == LocalQuotaProvider.name:
        return None
    try:
        return load_quota_provider(name, lambda _: None)
    except (ValueError, NotConfigured) as error:
        raise CannotServe(f"quota.provider: {error}") from error


def _make_store(settings: Settings) -> Store:
    try:
        return make_store(settings)
    except StoreUnavailable as error:
        raise CannotServe(str(error)) from error


def _run_as_uid(settings: Settings) -> int | None:
    name = settings.engine.run_as
    if not name or os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise CannotServe(f"engine.run_as: there is no user {name!r} on this machine") from None


def _engine(settings: Settings, data_dir: Path) -> Engine | None:
    if settings.engine.kind == "none":
        return None
    # Where pids start anew without a boot, as in a container, its runtime can say so in a file.
    boot_id_file = process_environ().get("TGPU_BOOT_ID_FILE") or BOOT_ID_FILE
    return LocalEngine(data_dir / "engine", boot_id_file=Path(boot_id_file))
