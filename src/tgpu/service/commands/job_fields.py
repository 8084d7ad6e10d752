"""A job as the fields of the submission that would create it. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from tgpu.core.model.job import Detail, Job
from tgpu.core.model.units import CPU, SECOND, gpus_text
from tgpu.store.api import StoredJob
from tgpu.text.gpu_names import as_word
from tgpu.text.instants import iso_text

NOTHING = "nothing"  # in sentences, where a field has no value


def job_fields(job: Job) -> dict[str, object]:
    """All that can be changed of a job that waits; amounts are of each worker."""
    request, options, where = job.request, job.options, job.request.where
    millis, cpu_millis, mem_mib = request.of_a_worker()
    deadline = options.deadline_at
    return {
        "priority": job.priority,
        "queue": job.queue,
        "workers": request.workers,
        "gpu_count": gpus_text(options.compute_millis or millis),
        "gpu_type": request.gpu_type,
        "gpu_types": list(where.gpu_types),
        "gpu_memory_mb": request.gpu_mem_mib // request.workers,
        "gpu_memory_each_mb": where.gpu_mem_each_mib,
        "cpu_cores": cpu_millis / CPU,
        "memory_mb": mem_mib,
        "max_runtime": None if options.time_limit_ms is None else options.time_limit_ms / SECOND,
        "allowed_gpus": list(map(as_word, where.gpus)),
        "excluded_gpus": list(map(as_word, where.not_gpus)),
        "nodes": list(where.nodes),
        "excluded_nodes": list(where.not_nodes),
        "labels": dict(where.labels),
        "exclusive": where.exclusive,
        "same_island": where.same_island,
        "spread": where.spread,
        "deadline": None if deadline is None else iso_text(deadline),
        "preemptible": options.preemptible,
        "checkpoint_signal": options.checkpoint_signal,
        "reservation": options.booking,
        "requeue": options.requeue,
        "max_retries": options.max_retries,
        "backoff_seconds": options.backoff_ms / SECOND,
        "after": [{"job_id": after.job_id, "kind": str(after.kind)} for after in job.after],
    }


def differences(before: Job, after: Job) -> Iterator[tuple[str, str, str]]:
    """Field, and what it was and is, for people."""
    was, becomes = job_fields(before), job_fields(after)
    for name, value in was.items():
        if value != becomes[name]:
            yield name, shown(value), shown(becomes[name])


def with_edits(
    job: Job, detail: Detail, stored: StoredJob, edited: frozenset[str]
) -> tuple[Job, Detail]:
    """What was asked for, as it would be after the same edits; as it is where more differs."""
    was = stored.job
    asked, kept = job_fields(job), job_fields(was)
    alike = (job.options.user, job.options.lease) == (was.options.user, was.options.lease)
    if not edited or not alike or any(asked[n] != kept[n] for n in asked.keys() - edited):
        return job, detail
    job = replace(
        job,
        priority=was.priority,
        request=was.request,
        queue=was.queue,
        options=was.options,
        after=was.after,
    )
    return job, replace(detail, name=stored.detail.name) if "name" in edited else detail


def shown(value: object) -> str:
    match value:
        case None | "":
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case list():
            words = [item["job_id"] if isinstance(item, dict) else str(item) for item in value]
            return ",".join(words) or NOTHING
        case dict():
            return ",".join(f"{key}={item}" for key, item in value.items()) or NOTHING
    return str(value)
