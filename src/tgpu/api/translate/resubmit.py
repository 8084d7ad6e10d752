"""The command that would submit a job again with some options changed."""

import shlex
from collections.abc import Iterator

from tgpu.api.translate.submissions import signal_name
from tgpu.core.model.ids import DEFAULT_QUEUE
from tgpu.core.model.job import Detail, Job, Where
from tgpu.core.model.units import CPU, GPU, SECOND, gpus_text
from tgpu.core.placement.place import gpus_touched
from tgpu.text.durations import exact_text
from tgpu.text.gpu_names import as_word
from tgpu.text.instants import utc_text
from tgpu.text.sizes import exact_size_text

_GIB = 1024


def resubmit_command(
    old_id: str, job: Job, detail: Detail, env: dict[str, str], usual_priority: int
) -> str:
    """Submits the other one, and only then ends the job that waits: who mistypes loses nothing.

    `env` are the variables that may be shown.
    """
    words = ["tgpu", "submit", *_resources(job), *_where(job.request.where), *_times(job)]
    if job.priority != usual_priority:
        words += ["--priority", str(job.priority)]
    words += _setting(job, detail, env)
    if job.options.lease:
        words.append("--lease")
    else:
        words += ["--", *detail.argv]
    return f"{shlex.join(words)} && {shlex.join(['tgpu', 'cancel', old_id])}"


def _resources(job: Job) -> Iterator[str]:
    request, where = job.request, job.request.where
    millis, cpu_millis, mem_mib = request.of_a_worker()
    yield from ("--gpus", gpus_text(millis))
    if request.workers > 1:
        yield from ("--workers", str(request.workers))
    types = where.gpu_types if request.gpu_type is None else (request.gpu_type,)
    if types:
        yield from ("--type", ",".join(types))
    if request.gpu_mem_mib:
        touched = gpus_touched(request)
        yield from ("--gpu-mem", exact_size_text(request.gpu_mem_mib // request.workers // touched))
    if where.gpu_mem_each_mib and not request.gpu_mem_mib:
        yield from ("--gpu-size", exact_size_text(where.gpu_mem_each_mib))
    if cpu_millis:
        yield from ("--cpus", gpus_text(cpu_millis * GPU // CPU))
    if mem_mib:
        yield from ("--mem", exact_size_text(mem_mib))


def _where(where: Where) -> Iterator[str]:
    for option, indexes in (("--gpu-ids", where.gpus), ("--not-gpu-ids", where.not_gpus)):
        if indexes:
            yield from (option, ",".join(map(str, map(as_word, indexes))))
    for option, names in (("--node", where.nodes), ("--not-node", where.not_nodes)):
        if names:
            yield from (option, ",".join(names))
    for name, value in where.labels:
        yield from ("--label", f"{name}={value}")
    flags = (
        ("--exclusive", where.exclusive),
        ("--same-island", where.same_island),
        ("--spread", where.spread),
    )
    yield from (option for option, is_set in flags if is_set)


def _times(job: Job) -> Iterator[str]:
    options = job.options
    if options.time_limit_ms is not None:
        yield from ("--time", span_text(options.time_limit_ms))
    if options.deadline_at is not None:
        yield from ("--deadline", utc_text(options.deadline_at))
    if options.booking is not None:
        yield from ("--reservation", options.booking)
    if not options.preemptible:
        yield "--no-preempt"
    if options.checkpoint_signal is not None:
        yield from ("--checkpoint-signal", signal_name(options.checkpoint_signal) or "")
    if options.max_retries:
        yield from ("--retries", str(options.max_retries))
    if options.requeue:
        yield "--requeue"


def _setting(job: Job, detail: Detail, env: dict[str, str]) -> Iterator[str]:
    if detail.name:
        yield from ("--name", detail.name)
    if job.tenant_id != "default":
        yield from ("--tenant", job.tenant_id)
    if job.queue != DEFAULT_QUEUE:
        yield from ("--queue", job.queue)
    if detail.cwd:
        yield from ("--cwd", detail.cwd)
    for name, value in env.items():
        yield from ("--env", f"{name}={value}")
    for name, _ in detail.secrets:
        yield from ("--secret", name)


def span_text(ms: int) -> str:
    """Exact to the second, and never none: 2h30m."""
    return exact_text(max(1, ms // SECOND))
