"""The options of `tgpu edit`, as a change that the API takes."""

from collections.abc import Callable
from typing import Final

from tgpu.cli import amounts
from tgpu.cli.failures import bad_input
from tgpu.cli.options import read_option
from tgpu.cli.submit.option_fields import (
    JobOptions,
    Submitter,
    after_of,
    gpu_memory,
    table_fields,
)
from tgpu.text.sizes import parse_mebibytes
from tgpu.wire.v1 import JobModel

_ANY: Final = ("any", "none")
# Where one of these words takes away what the job says: the field and its value without.
_WITHOUT: Final[dict[str, tuple[str, object]]] = {
    "gpu_ids": ("allowed_gpus", []),
    "not_gpu_ids": ("excluded_gpus", []),
    "deadline": ("deadline", None),
}


def change_of(
    options: JobOptions, job: JobModel, now_ms: int, find_id: Callable[[str], str]
) -> dict[str, object]:
    """The fields to change, in the words of the API. `job` is as it stands. Raises Failure."""
    given = dict(options)
    fields: dict[str, object] = {}
    for name, (field, without) in _WITHOUT.items():
        if given.get(name) in _ANY:
            fields[field] = without
            del given[name]
    for name in given.keys() & {"node", "not_node"}:
        given[name] = [word for word in amounts.split_ids(given[name]) if word not in _ANY]
    here = Submitter("", "", {}, now_ms)
    fields |= table_fields(given, here, empty_is_none=False)
    return {**fields, **_gpus(given, job), **_type(given), **_removed(given, find_id)}


def _type(options: JobOptions) -> dict[str, object]:
    if "gpu_type" not in options:
        return {}
    types = [name for name in amounts.split_ids([options["gpu_type"]]) if name not in _ANY]
    return {"gpu_types": types} if len(types) > 1 else {"gpu_type": types[0] if types else None}


def _gpus(options: JobOptions, job: JobModel) -> dict[str, object]:
    fields: dict[str, object] = {}
    gpus = job.gpus_per_worker
    if "gpus" in options:
        gpus = fields["gpu_count"] = read_option("--gpus", amounts.parse_gpu_count, options["gpus"])
    if "gpu_size" in options:
        size = read_option("--gpu-size", parse_mebibytes, options["gpu_size"])
        fields["gpu_memory_each_mb"] = size
    if "gpu_mem" in options:
        fields["gpu_memory_mb"], needed = gpu_memory(options["gpu_mem"], gpus)
        if needed:
            fields.setdefault("gpu_memory_each_mb", needed)
    return fields


def _removed(options: JobOptions, find_id: Callable[[str], str]) -> dict[str, object]:
    """Time limits and dependencies have an option of their own for none."""
    fields: dict[str, object] = {}
    if options.get("no_time"):
        if "time" in options:
            raise bad_input("--time and --no-time exclude each other", "leave one of them out")
        fields["max_runtime"] = None
    if options.keys() & {"after", "after_any"}:
        if options.get("no_after"):
            raise bad_input("--after and --no-after exclude each other", "leave one of them out")
        fields["after"] = after_of(options, find_id)
    elif options.get("no_after"):
        fields["after"] = []
    return fields
