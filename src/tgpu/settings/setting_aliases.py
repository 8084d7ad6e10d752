"""Keys of other schedulers' files: aliases of ours, and keys without effect.

A key leaves the second table when its feature lands, for the settings model or the first table.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter, ValidationError

from tgpu.settings.fields import NOT_BOOL
from tgpu.settings.keys import in_words, variable_of

NO_EFFECT: Final = "accepted, has no effect in this version"


class _Keep:
    """The converted value says nothing: our own default stays."""


KEEP: Final = _Keep()


@dataclass(frozen=True, slots=True)
class Renamed:
    """Another name for a key of ours."""

    name: str
    to: str
    convert: Callable[[Any], object] = lambda value: value
    is_old: bool = False  # ours once, and not another scheduler's: who uses it is told


@dataclass(frozen=True, slots=True)
class Idle:
    """A key that is checked and then changes nothing."""

    name: str
    kind: Any  # what it may be, as pydantic reads it


def _truth(value: object, when_true: object, when_false: object) -> object:
    try:
        return when_true if TypeAdapter(bool).validate_python(value) else when_false
    except ValidationError:
        raise ValueError("must be true or false") from None


def _whole(value: object) -> object:
    # Other files have 100.0 or 0.5 where we count whole units; rounding down could mean "never".
    return math.ceil(value) if isinstance(value, float) and math.isfinite(value) else value


_YEAR: Final = 366 * 86_400
_Seconds = Annotated[float, Field(ge=0, le=_YEAR, allow_inf_nan=False), NOT_BOOL]
_Count = Annotated[int, Field(ge=0, le=1_000_000_000), NOT_BOOL]
_Path = Annotated[str, Field(min_length=1, max_length=4096)]

RENAMED: Final = (
    Renamed("scheduler.passing", "scheduler.backfill", is_old=True),
    Renamed("scheduler.num_gpus", "devices.expected_gpus"),
    Renamed("scheduler.graceful_shutdown_timeout_s", "api.shutdown_seconds"),
    Renamed("scheduler.job_timeout_s", "jobs.time_limit_s"),
    Renamed("gpu.monitor_interval_s", "devices.monitor_interval_seconds"),
    Renamed("gpu.memory_threshold", "devices.memory_threshold"),
    Renamed("gpu.load_threshold", "devices.load_threshold"),
    Renamed("gpu.allocation_precision", "devices.allocation_precision"),
    Renamed("gpu.utilization_window_s", "devices.idle_window_seconds"),
    Renamed("jobs.queue_size_limit", "scheduler.max_queue_size"),
    Renamed("jobs.max_concurrent_jobs", "scheduler.max_running_jobs"),
    Renamed("files.log_file", "logging.file"),
    Renamed("logging.structured", "logging.format", lambda value: _truth(value, "json", "console")),
    Renamed("logging.max_log_size_mb", "logging.max_size_mb", _whole),
    Renamed("logging.metrics_enabled", "api.metrics_port", lambda value: _truth(value, KEEP, 0)),
)

IDLE: Final = (
    Idle("scheduler.max_workers", _Count),
    Idle("scheduler.worker_timeout_s", _Seconds),
    Idle("files.state_file", _Path),
)

# Keys of our own model whose feature is not here: the quota providers that would read them are
# refused at the start, so set without one of those they change nothing.
IDLE_OWN: Final = (
    "quota.k8s_namespace",
    "quota.k8s_create_resource_quotas",
    "quota.slurm_account_prefix",
    "quota.slurm_rest_api_url",
    "quota.slurm_auth_token",
)


@cache
def setting_aliases() -> Mapping[str, Renamed | Idle]:
    """Both tables, by name."""
    return {key.name: key for key in (*RENAMED, *IDLE)}


@cache
def alias_variables() -> Mapping[str, str]:
    """Environment variables of these keys, and the key of each."""
    return {variable_of(name): name for name in setting_aliases()}


def names_in(section: str) -> tuple[str, ...]:
    """What follows the dot in the keys of one section."""
    prefix = f"{section}."
    return tuple(n.removeprefix(prefix) for n in setting_aliases() if n.startswith(prefix))


def checked(key: Idle, value: object) -> object:
    """The value, as it was understood; ValueError says what may stand there."""
    adapter = TypeAdapter(key.kind)
    try:
        return adapter.validate_python(value)
    except ValidationError:
        raise ValueError(f"must be {in_words(adapter.json_schema())}") from None
