"""What a user typed after `tgpu submit`, as a request for the API."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from types import MappingProxyType
from typing import Final

from pydantic import ValidationError

from tgpu.cli import amounts
from tgpu.cli.failures import Failure, bad_input, of_validation
from tgpu.cli.options import read_option
from tgpu.cli.submit.mail_types import parse_mail_types
from tgpu.cli.submit.one_word import refuse_one_word
from tgpu.cli.submit.secrets_given import Ask, read_secrets
from tgpu.text.durations import parse_duration
from tgpu.text.instants import parse_instant
from tgpu.wire.v1 import AfterModel, ArrayRequest, SubmitRequest

_NO_COMMAND = (
    "put it after --, as in: tgpu submit --gpus 1 -- python train.py "
    "(or reserve GPUs without one: tgpu submit --gpus 1 --lease)"
)


# What the API calls a field, and what the user typed to fill it.
_OPTIONS: Final = {
    "job_id": "--id",
    "tenant_id": "--tenant",
    "queue": "--queue",
    "name": "--name",
    "priority": "--priority",
    "gpu_count": "--gpus",
    "workers": "--workers",
    "gpu_type": "--type",
    "gpu_types": "--type",
    "gpu_memory_each_mb": "--gpu-size",
    "gpu_memory_mb": "--gpu-mem",
    "cpu_cores": "--cpus",
    "memory_mb": "--mem",
    "environment": "--env",
    "secrets": "--secret",
    "working_dir": "--cwd",
    "max_runtime": "--time",
    "max_runtime_minutes": "--time",
    "max_retries": "--retries",
    "backoff_seconds": "--backoff",
    "allowed_gpus": "--gpu-ids",
    "excluded_gpus": "--not-gpu-ids",
    "nodes": "--node",
    "excluded_nodes": "--not-node",
    "labels": "--label",
    "exclusive": "--exclusive",
    "same_island": "--same-island",
    "deadline": "--deadline",
    "checkpoint_signal": "--checkpoint-signal",
    "reservation": "--reservation",
    "after": "--after",
    "array": "--array",
    "params": "--param",
    "size_by": "--auto",
    "conda": "--conda",
    "venv": "--venv",
    "uv": "--uv",
    "screen": "--screen",
    "tmux": "--tmux",
    "log_limit_mb": "--log-limit",
    "mail_to": "--mail-user",
    "mail_on": "--mail-type",
}


@dataclass(frozen=True, slots=True)
class Typed:
    """The options and the command as they were typed."""

    command: Sequence[str]
    gpus: str | None = None  # 1, unless the model decides
    gpu_type: str | None = None
    gpu_mem: str | None = None
    cpus: float = 0
    mem: str | None = None
    priority: int | None = None
    name: str = ""
    tenant: str | None = None  # the submitter's only one
    queue: str = "default"
    time: str | None = None
    retries: int = 0
    backoff: str | None = None
    requeue: bool = False
    after: Sequence[str] = ()
    after_any: Sequence[str] = ()
    array: str | None = None
    params: Sequence[str] = ()
    hold: bool = False
    job_id: str | None = None
    gpu_ids: str | None = None
    env: Sequence[str] = ()
    secret: Sequence[str] = ()
    send_env: bool = True
    lease: bool = False
    workers: int = 1
    gpu_size: str | None = None
    not_gpu_ids: str | None = None
    nodes: Sequence[str] = ()
    not_nodes: Sequence[str] = ()
    labels: Sequence[str] = ()
    exclusive: bool = False
    same_island: bool = False
    spread: bool = False
    reservation: str | None = None
    deadline: str | None = None
    preemptible: bool = True
    checkpoint_signal: str | None = None
    auto: bool = False
    conda: str = ""
    venv: str = ""
    uv: str = ""
    size_by: str = "given"
    screen: bool = False
    tmux: bool = False
    log_limit: str | None = None
    mail_user: Sequence[str] = ()
    mail_type: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Submitter:
    """Who submits, from where, with what environment, and when."""

    user: str
    working_dir: str
    variables: dict[str, str]
    now_ms: int = 0
    ask_secret: Ask | None = None  # for one that is not among the variables


def build_request(
    typed: Typed,
    submitter: Submitter,
    find_id: Callable[[str], str],
    given: Mapping[str, object] = MappingProxyType({}),
) -> tuple[SubmitRequest, list[str]]:
    """The request, and the names of variables that could not be sent.

    `find_id` turns `last` into an id; `given` are fields of the request as a file has them. Raises
    Failure for bad input.
    """
    command = read_command(typed.command, typed.lease)
    if typed.auto and typed.gpus is not None:
        raise bad_input("--auto and --gpus exclude each other", "leave one of them out")
    gpus = read_option("--gpus", amounts.parse_gpu_count, typed.gpus or "1")
    secrets = read_option(
        "--secret",
        lambda _: read_secrets(typed.secret, submitter.variables, submitter.ask_secret),
        "",
    )
    mine = {name: value for name, value in submitter.variables.items() if name not in secrets}
    sendable, left_out = _sendable(mine if typed.send_env else {})
    fields: dict[str, object] = {
        "job_id": typed.job_id,
        **({"tenant_id": typed.tenant} if typed.tenant else {}),
        "queue": typed.queue,
        "name": _text("--name", typed.name),
        "user": submitter.user,
        "priority": typed.priority,
        "workers": typed.workers,
        "gpu_count": gpus,
        "cpu_cores": typed.cpus,
        "memory_mb": read_option("--mem", amounts.parse_mebibytes, typed.mem) if typed.mem else 0,
        "command": command,
        "environment": read_option(
            "--env", lambda _: amounts.parse_variables(typed.env, submitter.variables), ""
        ),
        "base_environment": sendable,
        "secrets": secrets,
        "working_dir": _text("the working directory", submitter.working_dir),
        "max_runtime": read_option("--time", parse_duration, typed.time) if typed.time else None,
        "max_retries": typed.retries,
        "requeue": typed.requeue,
        "hold": typed.hold,
        "preemptible": typed.preemptible,
        "checkpoint_signal": typed.checkpoint_signal,
        "reservation": typed.reservation,
        "deadline": None
        if typed.deadline is None
        else parse_deadline(typed.deadline, submitter.now_ms),
        "after": _after(typed, find_id),
        "array": _array(typed.array),
        "params": read_option("--param", lambda _: amounts.parse_params(typed.params), ""),
    }
    fields |= _gpus(typed, gpus) | _where(typed) | _surroundings(typed) | _mail(typed)
    if typed.backoff:
        fields["backoff_seconds"] = read_option("--backoff", parse_duration, typed.backoff)
    try:
        return SubmitRequest.model_validate(_with_given(fields, given)), left_out
    except ValidationError as error:
        raise in_options(of_validation(error)) from error


def _with_given(fields: dict[str, object], given: Mapping[str, object]) -> dict[str, object]:
    """Of a parameter that both have, the values that were typed."""
    params = given.get("params")
    if not isinstance(params, Mapping):
        return {**fields, **given}
    typed = fields["params"]
    assert isinstance(typed, dict)
    return {**fields, **given, "params": {**params, **typed}}


def option_of(field: str) -> str | None:
    """What is typed to fill a field of the API."""
    return _OPTIONS.get(field)


def in_options(failure: Failure, options: Mapping[str, str] = _OPTIONS) -> Failure:
    """The same failure in the words of the command line: `gpu_count: …` becomes `--gpus: …`."""
    field, colon, rest = failure.message.partition(": ")
    option = options.get(field.split(".", maxsplit=1)[0])
    if colon and option is not None:
        failure.message = f"{option}: {rest}"
    return failure


def read_command(words: Sequence[str], lease: bool) -> list[str]:
    """The command; a single `cmd=…` is taken apart as a shell would."""
    command = list(words)
    if len(command) == 1 and command[0].startswith("cmd="):
        command = read_option("cmd=", shlex.split, command[0].removeprefix("cmd="))
    if lease:
        if command:
            raise bad_input("--lease takes no command", "leave out --lease, or the command")
        return []
    if not command or not command[0].strip():
        raise bad_input("there is no command to run", _NO_COMMAND)
    if len(command) == 1:
        refuse_one_word(command[0])
    return [_text("the command", word) for word in command]


def _gpus(typed: Typed, gpus: int | float) -> dict[str, object]:
    """Which GPUs, and how much memory on them."""
    types = amounts.split_ids([typed.gpu_type]) if typed.gpu_type else []
    if typed.gpu_type and not types:
        raise bad_input(f"--type: {typed.gpu_type!r} is not a GPU type: write one like A100")
    size = typed.gpu_size
    each = read_option("--gpu-size", amounts.parse_mebibytes, size) if size else 0
    total, needed = gpu_memory(typed.gpu_mem, gpus)
    return {
        "gpu_type": types[0] if len(types) == 1 else None,
        "gpu_types": types if len(types) > 1 else [],
        "gpu_memory_mb": total,
        "gpu_memory_each_mb": max(each, needed),
    }


def _where(typed: Typed) -> dict[str, object]:
    return {
        "allowed_gpus": _indexes("--gpu-ids", typed.gpu_ids),
        "excluded_gpus": _indexes("--not-gpu-ids", typed.not_gpu_ids),
        "nodes": amounts.split_ids(typed.nodes),
        "excluded_nodes": amounts.split_ids(typed.not_nodes),
        "labels": read_option("--label", lambda _: amounts.parse_labels(typed.labels), ""),
        "exclusive": typed.exclusive,
        "same_island": typed.same_island,
        "spread": typed.spread,
    }


def _surroundings(typed: Typed) -> dict[str, object]:
    """The size by a model, and the Python environment."""
    return {
        "size_by": "learned" if typed.auto else typed.size_by,
        "conda": typed.conda,
        "venv": typed.venv,
        "uv": typed.uv,
        "screen": typed.screen,
        "tmux": typed.tmux,
        "log_limit_mb": _log_limit(typed.log_limit),
    }


def _log_limit(text: str | None) -> int | None:
    if text is None:
        return None
    return 0 if text.lower() in ("0", "none") else read_option("--log-limit", parse_log, text)


def parse_log(text: str) -> int:
    return max(1, amounts.parse_mebibytes(text))


def _mail(typed: Typed) -> dict[str, object]:
    words = amounts.split_ids(typed.mail_type)
    return {
        "mail_to": amounts.split_ids(typed.mail_user),
        "mail_on": read_option("--mail-type", lambda _: parse_mail_types(words), ""),
    }


def _indexes(option: str, text: str | None) -> list[int | str]:
    return read_option(option, amounts.parse_gpu_ids, text) if text else []


def gpu_memory(per_gpu: str | None, gpus: int | float) -> tuple[int, int]:
    """What a worker gets over all its GPUs together, as the API counts, and what a GPU must have.

    A share gets its part of a GPU's memory: 20G on half a GPU need one of 40G. The API finds that
    out by itself unless whole GPUs and a share are mixed.
    """
    if per_gpu is None:
        return 0, 0
    count = Decimal(str(gpus))
    each = read_option("--gpu-mem", amounts.parse_mebibytes, per_gpu)
    total = each * max(1, int(count.to_integral_value(ROUND_CEILING)))
    share = count % 1
    if count < 1 or not share:
        return total, 0
    return total, int((each / share).to_integral_value(ROUND_CEILING))


def parse_deadline(text: str, now_ms: int) -> str:
    """ISO 8601, with its zone. Raises Failure."""
    at = read_option("--deadline", lambda words: parse_instant(words, now_ms), text)
    if at <= now_ms:
        raise bad_input(f"--deadline: {text!r} has passed", "write a later one, like +2h")
    return datetime.fromtimestamp(at / 1000, UTC).isoformat()


def _after(typed: Typed, find_id: Callable[[str], str]) -> list[AfterModel]:
    completed = [find_id(job_id) for job_id in amounts.split_ids(typed.after)]
    over = [find_id(job_id) for job_id in amounts.split_ids(typed.after_any)]
    return [
        *(AfterModel(job_id=job_id, kind="ok") for job_id in completed),
        *(AfterModel(job_id=job_id, kind="any") for job_id in over),
    ]


def _array(text: str | None) -> ArrayRequest | None:
    if text is None:
        return None
    indexes, max_running = read_option("--array", amounts.parse_array, text)
    return ArrayRequest(indexes=indexes, max_running=max_running)


def _text(what: str, text: str) -> str:
    if not _is_sendable(text):
        raise bad_input(f"{what} has bytes that are not UTF-8: {text!r}")
    return text


def _sendable(variables: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """JSON carries only text; a variable of other bytes is left out and named."""
    kept = {n: v for n, v in variables.items() if _is_sendable(n) and _is_sendable(v)}
    return kept, sorted(repr(name) for name in variables.keys() - kept.keys())


def _is_sendable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
