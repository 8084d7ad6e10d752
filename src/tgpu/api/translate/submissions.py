"""From the requests of /api/v1 to submissions."""

import math
import re
import signal
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from tgpu.core.errors import InvalidRequest
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import (
    ANYWHERE,
    Dependency,
    DependencyKind,
    Detail,
    Options,
    Request,
    Where,
)
from tgpu.core.model.node import GpuChoice, GpuName
from tgpu.core.model.units import CPU, GPU, MAX_GPU_MILLIS, SECOND, gpu_millis
from tgpu.service.commands.submission import RunIn, SizeBy, Submission, parse_indexes
from tgpu.text.gpu_names import GPU_REMEDY, as_word, in_order, read_gpu
from tgpu.text.instants import zoned_millis
from tgpu.text.masking import MASK
from tgpu.text.plurals import plural
from tgpu.wire.bounds import LONGEST_ARGUMENT, WIDEST
from tgpu.wire.v1 import LONGEST_COUNT, SubmitRequest

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]+")
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
# No program can be told by these: nothing but the kernel acts on them.
_UNHEARD: Final = (signal.SIGKILL, signal.SIGSTOP)
_T = TypeVar("_T")
_LONGEST_SECONDS = 100 * 365 * 86_400  # a hundred years: a typing error, not a limit


def submission_of(body: SubmitRequest) -> Submission:
    """InvalidRequest where a field's value cannot be, beyond what its type says."""
    try:
        if isinstance(body.gpu_count, str) and len(body.gpu_count) > LONGEST_COUNT:
            raise ValueError("GPUs must be a number like 1, 2 or 0.5")
        millis = gpu_millis(body.gpu_count)
    except ValueError as error:
        remedy = str(error).partition(", not ")[0]  # the value is quoted anyway
        raise InvalidRequest("gpu_count", body.gpu_count, remedy) from None
    return Submission(
        request=_request(body, millis),
        # Nothing where none was named: `checked_submission` finds the caller's.
        tenant_id=TenantId(body.tenant_id or ""),
        job_id=None if body.job_id is None else JobId(body.job_id),
        priority=body.priority,
        queue=body.queue,
        options=Options(
            time_limit_ms=_time_limit(body),
            max_retries=body.max_retries,
            backoff_ms=round(body.backoff_seconds * SECOND),
            requeue=body.requeue,
            deadline_at=None if body.deadline is None else instant("deadline", body.deadline),
            preemptible=body.preemptible,
            checkpoint_signal=_signal(body.checkpoint_signal),
            booking=body.reservation or None,
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
            secrets=tuple(sorted(_secrets(body).items())),
            image=body.image,
            screen=body.screen,
            tmux=body.tmux,
            log_limit_mib=body.log_limit_mb,
            mail_to=tuple(body.mail_to),
            mail_on=_mail_on(body),
        ),
        base_environment=_environment("base_environment", body.base_environment),
        size_by=SizeBy(body.size_by),
        run_in=RunIn(body.conda, body.venv, body.uv)
        if body.conda or body.venv or body.uv
        else None,
    )


def signal_name(number: int) -> str:
    """USR1 for 10; the number where it has no name here."""
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return str(number)


def _mail_on(body: SubmitRequest) -> tuple[str, ...]:
    if body.mail_on and not body.mail_to:
        raise InvalidRequest("mail_to", body.mail_to, "name an address to write to")
    return tuple(body.mail_on) or (("end",) if body.mail_to else ())


def _request(body: SubmitRequest, millis: int) -> Request:
    """The core counts the amounts of all workers together."""
    workers = body.workers
    if millis * workers > MAX_GPU_MILLIS:
        asked = f"{plural(workers, 'worker')} of {plural(body.gpu_count, 'GPU')}"
        remedy = f"must be fewer: {asked} are more than {MAX_GPU_MILLIS // GPU}"
        raise InvalidRequest("workers", workers, remedy)
    for field, each in (("memory_mb", body.memory_mb), ("gpu_memory_mb", body.gpu_memory_mb)):
        if each * workers > WIDEST:
            raise InvalidRequest(field, each, f"of {workers} workers together is too much")
    only_type = body.gpu_types[0] if len(body.gpu_types) == 1 else None
    return Request(
        gpu_millis=millis * workers,
        gpu_type=body.gpu_type or only_type,
        gpu_mem_mib=body.gpu_memory_mb * workers,
        cpu_millis=math.ceil(body.cpu_cores * CPU) * workers,
        mem_mib=body.memory_mb * workers,
        workers=workers,
        where=_where(body),
    )


def _where(body: SubmitRequest) -> Where:
    if body.gpu_type is not None and body.gpu_types:
        raise InvalidRequest("gpu_types", body.gpu_types, "give gpu_type or gpu_types, not both")
    _refuse_twice("gpu_types", body.gpu_types)
    for name, value in body.labels.items():
        if not _LABEL.fullmatch(name):
            remedy = "a label is letters, digits, '_', '.', '/' and '-', as in rack=r1"
            raise InvalidRequest("labels", f"{name}={value}", remedy)
    gpus, not_gpus = (
        _gpus(field, words)
        for field, words in (
            ("allowed_gpus", body.allowed_gpus),
            ("excluded_gpus", body.excluded_gpus),
        )
    )
    _refuse_both("nodes", body.nodes, body.excluded_nodes)
    _refuse_both("allowed_gpus", map(as_word, gpus), map(as_word, not_gpus))
    where = Where(
        gpu_types=tuple(body.gpu_types) if len(body.gpu_types) > 1 else (),
        gpu_mem_each_mib=body.gpu_memory_each_mb,
        gpus=gpus,
        not_gpus=not_gpus,
        nodes=tuple(sorted(set(body.nodes))),
        not_nodes=tuple(sorted(set(body.excluded_nodes))),
        labels=tuple(sorted(body.labels.items())),
        exclusive=body.exclusive,
        same_island=body.same_island,
        spread=body.spread,
    )
    return ANYWHERE if where == ANYWHERE else where  # one object for the many that do not care


def _gpus(field: str, words: Sequence[int | str]) -> tuple[GpuChoice, ...]:
    found: set[int | tuple[str, int]] = set()
    for word in words:
        try:
            found.add(read_gpu(word) if isinstance(word, str) else word)
        except ValueError:
            raise InvalidRequest(field, word, GPU_REMEDY) from None
    return tuple(
        one if isinstance(one, int) else GpuName(NodeId(one[0]), one[1]) for one in in_order(found)
    )


def _refuse_both(field: str, allowed: Iterable[_T], excluded: Iterable[_T]) -> None:
    """The same both allowed and excluded is a slip."""
    both = sorted(set(allowed) & set(excluded), key=str)
    if both:
        raise InvalidRequest(field, both[0], "is both allowed and excluded; leave it out of one")


def _refuse_twice(field: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequest(field, name, "is given twice; name each one once")


def instant(field: str, text: str) -> int:
    """Milliseconds since 1970."""
    try:
        return zoned_millis(text)
    except (ValueError, OverflowError):
        remedy = "must be ISO 8601 with its zone, like 2030-01-31T09:00:00Z"
        raise InvalidRequest(field, text, f"{remedy} or 2030-01-31T10:00:00+01:00") from None


def _signal(given: int | str | None) -> int | None:
    """USR1, SIGUSR1 and 10 are the same."""
    if given is None or given == "":
        return None
    text = str(given).strip().upper()
    try:
        if text.isascii() and text.isdigit():
            found = signal.Signals(int(text))
        else:
            found = signal.Signals[text if text.startswith("SIG") else f"SIG{text}"]
    except (ValueError, KeyError):
        raise InvalidRequest("checkpoint_signal", given, "must be a signal: USR1 or 10") from None
    if found in _UNHEARD:
        remedy = "ends or stops the program at once; use USR1 or USR2"
        raise InvalidRequest("checkpoint_signal", given, remedy)
    return int(found)


def _argv(body: SubmitRequest) -> tuple[str, ...]:
    if body.args and not body.command:
        raise InvalidRequest("args", body.args, "arguments need a command")
    for field, given in (("command", body.command), ("args", body.args)):
        for position, argument in enumerate(given):
            _check_length(f"{field}.{position}", argument)
    argv = (*body.command, *body.args)
    if argv and not argv[0].strip():
        raise InvalidRequest("command", body.command, "has no program; leave it out for a lease")
    return argv


def _check_length(field: str, text: str) -> None:
    """The kernel counts bytes; the model has counted characters, of which each has up to four."""
    if len(text) * 4 > LONGEST_ARGUMENT and len(text.encode()) > LONGEST_ARGUMENT:
        most = f"must have at most {LONGEST_ARGUMENT} bytes, the most that a program can be given"
        raise InvalidRequest(field, text, most)


def _params(body: SubmitRequest) -> tuple[tuple[str, tuple[str, ...]], ...]:
    for name, values in body.params.items():
        if not _PARAMETER.fullmatch(name):
            raise InvalidRequest("params", name, "a parameter is letters, digits, '.', '_', '-'")
        if not values:
            raise InvalidRequest(f"params.{name}", values, "needs at least one value")
        for position, value in enumerate(values):
            _check_length(f"params.{name}.{position}", value)
    return tuple((name, tuple(values)) for name, values in body.params.items())


def _working_dir(path: str) -> str:
    if path and not path.startswith("/"):
        raise InvalidRequest("working_dir", path, "must be an absolute path")
    return path


def _environment(field: str, variables: dict[str, str]) -> dict[str, str]:
    for name, value in variables.items():
        _check_length(f"{field}.{name[:64]}", value)
        _check_length(field, name)
        # A shell may carry names that are no identifiers (BASH_FUNC_x%%); a job's own may not.
        if field == "environment" and not _VARIABLE.fullmatch(name):
            raise InvalidRequest(field, name, "variable names have letters, digits and _ only")
        if not name or "=" in name:
            raise InvalidRequest(field, name, "not a variable's name")
    return variables


def _secrets(body: SubmitRequest) -> dict[str, str]:
    """What is wrong with one is said without it."""
    for name, value in body.secrets.items():
        if not _VARIABLE.fullmatch(name):
            raise InvalidRequest("secrets", MASK, "variable names have letters, digits and _ only")
        if not value:
            raise InvalidRequest(f"secrets.{name[:64]}", "", "must not be empty")
        if name in body.environment:
            raise InvalidRequest(
                "secrets", name, "is in environment too, where it is shown: give it once"
            )
        if len(value.encode()) > LONGEST_ARGUMENT:
            most = f"must have at most {LONGEST_ARGUMENT} bytes"
            raise InvalidRequest(f"secrets.{name[:64]}", MASK, most)
    return body.secrets


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
