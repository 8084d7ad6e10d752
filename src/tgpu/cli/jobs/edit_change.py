"""The options of `tgpu edit`, as a change that the API takes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tgpu.cli import amounts
from tgpu.cli.failures import bad_input
from tgpu.cli.options import read_option
from tgpu.cli.submit.option_fields import gpu_memory, parse_deadline
from tgpu.text.durations import parse_duration
from tgpu.text.sizes import parse_mebibytes
from tgpu.wire.v1 import JobModel

_ANY = ("any", "none")


@dataclass(frozen=True, slots=True)
class Change:
    """What was typed; None leaves it as it is."""

    gpus: str | None = None
    workers: int | None = None
    gpu_type: str | None = None
    gpu_mem: str | None = None
    gpu_size: str | None = None
    cpus: float | None = None
    mem: str | None = None
    gpu_ids: str | None = None
    not_gpu_ids: str | None = None
    nodes: Sequence[str] | None = None
    not_nodes: Sequence[str] | None = None
    priority: int | None = None
    time: str | None = None
    no_time: bool = False
    deadline: str | None = None
    after: Sequence[str] | None = None
    after_any: Sequence[str] | None = None
    no_after: bool = False
    retries: int | None = None
    name: str | None = None
    queue: str | None = None


def change_of(
    change: Change, job: JobModel, now_ms: int, find_id: Callable[[str], str]
) -> dict[str, object]:
    """The fields to change, in the words of the API. `job` is as it stands. Raises Failure."""
    plain = {
        "workers": change.workers,
        "cpu_cores": change.cpus,
        "priority": change.priority,
        "max_retries": change.retries,
        "name": change.name,
        "queue": change.queue,
        "gpu_count": _read("--gpus", amounts.parse_gpu_count, change.gpus),
        "memory_mb": _read("--mem", parse_mebibytes, change.mem),
        "allowed_gpus": _indexes("--gpu-ids", change.gpu_ids),
        "excluded_gpus": _indexes("--not-gpu-ids", change.not_gpu_ids),
        "nodes": _names(change.nodes),
        "excluded_nodes": _names(change.not_nodes),
    }
    fields = {name: value for name, value in plain.items() if value is not None}
    return {
        **fields,
        **_memory(change, job),
        **_type(change),
        **_times(change, now_ms),
        **_after(change, find_id),
    }


def _read(option: str, parse: Callable[[str], object], text: str | None) -> object:
    return None if text is None else read_option(option, parse, text)


def _indexes(option: str, text: str | None) -> object:
    return [] if text in _ANY else _read(option, amounts.parse_gpu_ids, text)


def _names(texts: Sequence[str] | None) -> list[str] | None:
    if texts is None:
        return None
    return [name for name in amounts.split_ids(texts) if name not in _ANY]


def _type(change: Change) -> dict[str, object]:
    if change.gpu_type is None:
        return {}
    types = [name for name in amounts.split_ids([change.gpu_type]) if name not in _ANY]
    return {"gpu_types": types} if len(types) > 1 else {"gpu_type": types[0] if types else None}


def _memory(change: Change, job: JobModel) -> dict[str, object]:
    fields: dict[str, object] = {}
    if change.gpu_size is not None:
        fields["gpu_memory_each_mb"] = read_option("--gpu-size", parse_mebibytes, change.gpu_size)
    if change.gpu_mem is not None:
        gpus = job.gpus_per_worker
        if change.gpus is not None:
            gpus = read_option("--gpus", amounts.parse_gpu_count, change.gpus)
        total, needed = gpu_memory(change.gpu_mem, gpus)
        fields["gpu_memory_mb"] = total
        if needed:
            fields.setdefault("gpu_memory_each_mb", needed)
    return fields


def _times(change: Change, now_ms: int) -> dict[str, object]:
    fields: dict[str, object] = {}
    if change.no_time and change.time is not None:
        raise bad_input("--time and --no-time exclude each other", "leave one of them out")
    if change.no_time:
        fields["max_runtime"] = None
    elif change.time is not None:
        fields["max_runtime"] = read_option("--time", parse_duration, change.time)
    if change.deadline is not None:
        is_none = change.deadline in _ANY
        fields["deadline"] = None if is_none else parse_deadline(change.deadline, now_ms)
    return fields


def _after(change: Change, find_id: Callable[[str], str]) -> dict[str, object]:
    if change.no_after and (change.after or change.after_any):
        raise bad_input("--after and --no-after exclude each other", "leave one of them out")
    if change.no_after:
        return {"after": []}
    if not change.after and not change.after_any:
        return {}
    completed = [find_id(job_id) for job_id in amounts.split_ids(change.after or ())]
    over = [find_id(job_id) for job_id in amounts.split_ids(change.after_any or ())]
    return {
        "after": [
            *({"job_id": job_id, "kind": "ok"} for job_id in completed),
            *({"job_id": job_id, "kind": "any"} for job_id in over),
        ]
    }
