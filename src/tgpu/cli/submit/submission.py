"""What a user typed after `tgpu submit`, as a request for the API."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from pydantic import ValidationError

from tgpu.cli.failures import Failure, bad_input, of_validation
from tgpu.cli.options import read_option
from tgpu.cli.submit.one_word import refuse_one_word
from tgpu.cli.submit.option_fields import (
    DESCRIBING,
    FLAGS_BY_FIELD,
    JobOptions,
    Submitter,
    fields_of,
    is_sendable,
    sendable_text,
)
from tgpu.wire.v1 import SubmitRequest

_NO_COMMAND = (
    "put it after --, as in: tgpu submit --gpus 1 -- python train.py "
    "(or reserve GPUs without one: tgpu submit --gpus 1 --lease)"
)


def build_request(
    options: JobOptions,
    submitter: Submitter,
    find_id: Callable[[str], str],
    given: Mapping[str, object] = MappingProxyType({}),
) -> tuple[SubmitRequest, list[str]]:
    """The request, and the names of variables that could not be sent.

    `find_id` turns `last` into an id; `given` are fields of the request as a file has them. Raises
    Failure for bad input.
    """
    assert options.keys() <= DESCRIBING, f"nobody reads {options.keys() - DESCRIBING}"
    command = read_command(options.get("command") or (), bool(options.get("lease")))
    fields = fields_of(options, submitter, find_id)
    sendable, left_out = _base_environment(options, submitter, fields.get("secrets"))
    fields |= {
        "command": command,
        "user": submitter.user,
        "working_dir": sendable_text("the working directory", submitter.working_dir),
        "base_environment": sendable,
    }
    try:
        return SubmitRequest.model_validate(_with_given(fields, given)), left_out
    except ValidationError as error:
        raise in_options(of_validation(error)) from error


def _with_given(fields: dict[str, object], given: Mapping[str, object]) -> dict[str, object]:
    """Of a parameter that both have, the values that were typed."""
    params = given.get("params")
    if not isinstance(params, Mapping):
        return {**fields, **given}
    typed = fields.get("params", {})
    assert isinstance(typed, dict)
    return {**fields, **given, "params": {**params, **typed}}


def in_options(failure: Failure, flags: Mapping[str, str] = FLAGS_BY_FIELD) -> Failure:
    """The same failure in the words of the command line: `gpu_count: …` becomes `--gpus: …`."""
    field, colon, rest = failure.message.partition(": ")
    flag = flags.get(field.split(".", maxsplit=1)[0])
    if colon and flag is not None:
        failure.message = f"{flag}: {rest}"
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
    return [sendable_text("the command", word) for word in command]


def _base_environment(
    options: JobOptions, submitter: Submitter, secrets: object
) -> tuple[dict[str, str], list[str]]:
    """The submitter's own variables; one that is no text is left out and named."""
    hidden = secrets if isinstance(secrets, dict) else {}
    mine = {} if options.get("no_env") else submitter.variables
    variables = {name: value for name, value in mine.items() if name not in hidden}
    kept = {n: v for n, v in variables.items() if is_sendable(n) and is_sendable(v)}
    return kept, sorted(repr(name) for name in variables.keys() - kept.keys())
