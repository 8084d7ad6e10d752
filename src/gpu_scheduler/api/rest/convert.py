"""From the requests of /api/v1 to submissions."""

import math
import re

from gpu_scheduler.core.errors import InvalidRequest
from gpu_scheduler.core.ids import JobId, TenantId
from gpu_scheduler.core.job import (
    ANYWHERE,
    Dependency,
    DependencyKind,
    Detail,
    Options,
    Request,
    Where,
)
from gpu_scheduler.core.units import CPU, SECOND, gpu_millis
from gpu_scheduler.service.submission import Submission, parse_indexes
from gpu_scheduler.wire.v1 import SubmitRequest

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]+")
_LONGEST_SECONDS = 100 * 365 * 86_400  # a hundred years: a typing error, not a limit


def submission_of(body: SubmitRequest) -> Submission:
    """InvalidRequest where a field's value cannot be, beyond what its type says."""
    try:
        millis = gpu_millis(body.gpu_count)
    except ValueError as error:
        remedy = str(error).partition(", not ")[0]  # the value is quoted anyway
        raise InvalidRequest("gpu_count", body.gpu_count, remedy) from None
    return Submission(
        request=Request(
            gpu_millis=millis,
            gpu_type=body.gpu_type,
            gpu_mem_mib=body.gpu_memory_mb,
            cpu_millis=math.ceil(body.cpu_cores * CPU),
            mem_mib=body.memory_mb,
            where=_where(body),
        ),
        tenant_id=TenantId(body.tenant_id),
        job_id=None if body.job_id is None else JobId(body.job_id),
        priority=body.priority,
        queue=body.queue,
        options=Options(
            time_limit_ms=_time_limit(body),
            max_retries=body.max_retries,
            backoff_ms=round(body.backoff_seconds * SECOND),
            requeue=body.requeue,
        ),
        after=tuple(Dependency(JobId(a.job_id), DependencyKind(a.kind)) for a in body.after),
        indexes=parse_indexes(body.array.indexes) if body.array is not None else (),
        max_running=body.array.max_running if body.array is not None else None,
        params=_params(body),
        held=body.hold,
        detail=Detail(
            name=body.name,
            user=body.user,
            argv=_argv(body),
            cwd=_working_dir(body.working_dir),
            env=tuple(sorted(_environment("environment", body.environment).items())),
            image=body.image,
        ),
        base_environment=_environment("base_environment", body.base_environment),
    )


def _where(body: SubmitRequest) -> Where:
    where = Where(gpus=tuple(sorted(set(body.allowed_gpus))))
    return ANYWHERE if where == ANYWHERE else where  # one object for the many that do not care


def _argv(body: SubmitRequest) -> tuple[str, ...]:
    if body.args and not body.command:
        raise InvalidRequest("args", body.args, "arguments need a command")
    argv = (*body.command, *body.args)
    if argv and not argv[0].strip():
        raise InvalidRequest(
            "command", body.command, "begins with no program; leave it out for a lease"
        )
    return argv


def _params(body: SubmitRequest) -> tuple[tuple[str, tuple[str, ...]], ...]:
    for name, values in body.params.items():
        if not _PARAMETER.fullmatch(name):
            raise InvalidRequest("params", name, "a parameter is letters, digits, '.', '_', '-'")
        if not values:
            raise InvalidRequest(f"params.{name}", values, "needs at least one value")
    return tuple((name, tuple(values)) for name, values in body.params.items())


def _working_dir(path: str) -> str:
    if path and not path.startswith("/"):
        raise InvalidRequest("working_dir", path, "must be an absolute path")
    return path


def _environment(field: str, variables: dict[str, str]) -> dict[str, str]:
    for name in variables:
        # A shell may carry names that are no identifiers (BASH_FUNC_x%%); a job's own may not.
        if field == "environment" and not _VARIABLE.fullmatch(name):
            raise InvalidRequest(field, name, "variable names have letters, digits and _ only")
        if not name or "=" in name:
            raise InvalidRequest(field, name, "not a variable's name")
    return variables


def _time_limit(body: SubmitRequest) -> int | None:
    if body.max_runtime is not None and body.max_runtime_minutes is not None:
        raise InvalidRequest(
            "max_runtime", body.max_runtime, "give max_runtime or max_runtime_minutes, not both"
        )
    field, seconds = "max_runtime", body.max_runtime
    if body.max_runtime_minutes is not None:
        field, seconds = "max_runtime_minutes", body.max_runtime_minutes * 60
    if seconds is None:
        return None
    if seconds > _LONGEST_SECONDS:
        given = body.max_runtime or body.max_runtime_minutes
        raise InvalidRequest(field, given, "must be at most a hundred years")
    return max(1, round(seconds * SECOND))
