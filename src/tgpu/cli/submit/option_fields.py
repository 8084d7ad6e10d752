"""How the options of `tgpu submit` become fields of the API: one table for all who have options,
on a command line, in the head of a script or in a job file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final, TypeAlias

from tgpu.cli import amounts
from tgpu.cli.failures import bad_input
from tgpu.cli.options import read_option
from tgpu.cli.submit.mail_types import parse_mail_types
from tgpu.cli.submit.secrets_given import Ask, read_secrets
from tgpu.text.durations import parse_duration
from tgpu.text.instants import iso_text, parse_instant
from tgpu.text.sizes import parse_mebibytes

# By the name of the parameter, as the parser has them; the command is one too. None is none.
JobOptions: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Submitter:
    """Who submits, from where, with what environment, and when."""

    user: str
    working_dir: str
    variables: dict[str, str]
    now_ms: int = 0
    ask_secret: Ask | None = None  # for one that is not among the variables


def sendable_text(what: str, text: str) -> str:
    if not is_sendable(text):
        raise bad_input(f"{what} has bytes that are not UTF-8: {text!r}")
    return text


def is_sendable(text: str) -> bool:
    """JSON carries only text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_deadline(text: str, now_ms: int) -> str:
    """ISO 8601, with its zone. Raises Failure."""
    at = read_option("--deadline", lambda words: parse_instant(words, now_ms), text)
    if at <= now_ms:
        raise bad_input(f"--deadline: {text!r} has passed", "write a later one, like +2h")
    return iso_text(at)


def _array(text: str) -> dict[str, object]:
    indexes, max_running = amounts.parse_array(text)
    return {"indexes": indexes, "max_running": max_running}


def _log_limit(text: str) -> int:
    return 0 if text.lower() in ("0", "none") else max(1, parse_mebibytes(text))


_Read = Callable[[Any, Submitter], object]


def _as_it_is(value: object, _: Submitter) -> object:
    return value


def _by(parse: Callable[[Any], object]) -> _Read:
    return lambda value, _: parse(value)


# By parameter: the field of the API, and how what was typed is read. A ValueError is bad input.
_FIELDS: Final[Mapping[str, tuple[str, _Read]]] = {
    "secret": ("secrets", lambda words, by: read_secrets(words, by.variables, by.ask_secret)),
    "job_id": ("job_id", _as_it_is),
    "tenant": ("tenant_id", _as_it_is),
    "queue": ("queue", _as_it_is),
    "name": ("name", lambda text, _: sendable_text("--name", text)),
    "priority": ("priority", _as_it_is),
    "workers": ("workers", _as_it_is),
    "cpus": ("cpu_cores", _as_it_is),
    "mem": ("memory_mb", _by(parse_mebibytes)),
    "env": ("environment", lambda pairs, by: amounts.parse_variables(pairs, by.variables)),
    "time": ("max_runtime", _by(parse_duration)),
    "retries": ("max_retries", _as_it_is),
    "requeue": ("requeue", _as_it_is),
    "hold": ("hold", _as_it_is),
    "checkpoint_signal": ("checkpoint_signal", _as_it_is),
    "reservation": ("reservation", _as_it_is),
    "deadline": ("deadline", lambda text, by: parse_deadline(text, by.now_ms)),
    "array": ("array", _by(_array)),
    "param": ("params", _by(amounts.parse_params)),
    "gpu_ids": ("allowed_gpus", _by(amounts.parse_gpu_ids)),
    "not_gpu_ids": ("excluded_gpus", _by(amounts.parse_gpu_ids)),
    "node": ("nodes", _by(amounts.split_ids)),
    "not_node": ("excluded_nodes", _by(amounts.split_ids)),
    "label": ("labels", _by(amounts.parse_labels)),
    "exclusive": ("exclusive", _as_it_is),
    "same_island": ("same_island", _as_it_is),
    "spread": ("spread", _as_it_is),
    "conda": ("conda", _as_it_is),
    "venv": ("venv", _as_it_is),
    "uv": ("uv", _as_it_is),
    "screen": ("screen", _as_it_is),
    "tmux": ("tmux", _as_it_is),
    "log_limit": ("log_limit_mb", _by(_log_limit)),
    "mail_user": ("mail_to", _by(amounts.split_ids)),
    "mail_type": ("mail_on", lambda words, _: parse_mail_types(amounts.split_ids(words))),
    "backoff": ("backoff_seconds", _by(parse_duration)),
}
# Of these, an empty text is as good as none.
_MAY_BE_EMPTY: Final = frozenset({"tenant", "mem", "time", "gpu_ids", "not_gpu_ids", "backoff"})
_FLAGS: Final = {"gpu_type": "--type", "job_id": "--id"}  # where parameters have other names
_PARAMETERS: Final = {flag: name for name, flag in _FLAGS.items()}


def flag_of(parameter: str) -> str:
    """ "--gpu-mem" of `gpu_mem`."""
    return _FLAGS.get(parameter) or "--" + parameter.replace("_", "-")


def parameter_of(flag: str) -> str:
    return _PARAMETERS.get(flag) or flag.removeprefix("--").replace("-", "_")


# What the API calls a field, and what the user typed to fill it.
FLAGS_BY_FIELD: Final = {
    **{field: flag_of(parameter) for parameter, (field, _) in _FIELDS.items()},
    "gpu_count": "--gpus",
    "size_by": "--auto",
    "gpu_type": "--type",
    "gpu_types": "--type",
    "gpu_memory_each_mb": "--gpu-size",
    "gpu_memory_mb": "--gpu-mem",
    "working_dir": "--cwd",
    "max_runtime_minutes": "--time",
    "after": "--after",
}
# With what is read here and where the request is made: all that describes a job.
DESCRIBING: Final = frozenset(
    {
        *_FIELDS,
        *("gpus", "auto", "gpu_type", "gpu_mem", "gpu_size", "no_preempt", "after", "after_any"),
        *("command", "lease", "cwd", "no_env"),
    }
)


def fields_of(
    options: JobOptions, submitter: Submitter, find_id: Callable[[str], str]
) -> dict[str, object]:
    """The fields that these options fill. `find_id` turns `last` into an id. Raises Failure."""
    if options.get("auto") and options.get("gpus") is not None:
        raise bad_input("--auto and --gpus exclude each other", "leave one of them out")
    gpus = read_option("--gpus", amounts.parse_gpu_count, options.get("gpus") or "1")
    fields: dict[str, object] = {"gpu_count": gpus, **table_fields(options, submitter)}
    if options.get("auto"):
        fields["size_by"] = "learned"
    if options.get("no_preempt"):
        fields["preemptible"] = False
    after = after_of(options, find_id)
    return fields | {"after": after} | _gpu_type(options) | _gpu_memory(options, gpus)


def table_fields(
    options: JobOptions, submitter: Submitter, *, empty_is_none: bool = True
) -> dict[str, object]:
    """What the table alone says of these options. Raises Failure."""
    fields: dict[str, object] = {}
    for parameter, (field, read) in _FIELDS.items():
        value = options.get(parameter)
        is_none = value is None or (value == "" and empty_is_none and parameter in _MAY_BE_EMPTY)
        if not is_none:
            fields[field] = _read(flag_of(parameter), read, value, submitter)
    return fields


def _read(flag: str, read: _Read, value: Any, submitter: Submitter) -> object:
    return read_option(flag, lambda given: read(given, submitter), value)


def after_of(options: JobOptions, find_id: Callable[[str], str]) -> list[dict[str, str]]:
    return [
        {"job_id": find_id(job_id), "kind": kind}
        for parameter, kind in (("after", "ok"), ("after_any", "any"))
        for job_id in amounts.split_ids(options.get(parameter) or ())
    ]


def _gpu_type(options: JobOptions) -> dict[str, object]:
    text = options.get("gpu_type")
    if not text:
        return {}
    types = amounts.split_ids([text])
    if not types:
        raise bad_input(f"--type: {text!r} is not a GPU type: write one like A100")
    return {"gpu_type": types[0]} if len(types) == 1 else {"gpu_types": types}


def _gpu_memory(options: JobOptions, gpus: int | float) -> dict[str, object]:
    size = options.get("gpu_size")
    each = read_option("--gpu-size", parse_mebibytes, size) if size else 0
    total, needed = gpu_memory(options.get("gpu_mem"), gpus)
    return {"gpu_memory_mb": total, "gpu_memory_each_mb": max(each, needed)}


def gpu_memory(per_gpu: str | None, gpus: int | float) -> tuple[int, int]:
    """What a worker gets over all its GPUs together, as the API counts, and what a GPU must have.

    A share gets its part of a GPU's memory: 20G on half a GPU need one of 40G. The API finds that
    out by itself unless whole GPUs and a share are mixed.
    """
    if per_gpu is None:
        return 0, 0
    count = Decimal(str(gpus))
    each = read_option("--gpu-mem", parse_mebibytes, per_gpu)
    total = each * max(1, int(count.to_integral_value(ROUND_CEILING)))
    share = count % 1
    if count < 1 or not share:
        return total, 0
    return total, int((each / share).to_integral_value(ROUND_CEILING))
