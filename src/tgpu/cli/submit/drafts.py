"""A job as a file describes it, merged with the options of the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tgpu.cli.failures import Failure
from tgpu.cli.option_words import ANSWERING
from tgpu.cli.submit.option_fields import FLAGS_BY_FIELD, JobOptions, parameter_of

# Each of these sets one name; the others of the file stay as they are.
_BY_NAME: Final = ("env", "label", "param", "secret")


@dataclass(frozen=True, slots=True)
class JobDraft:
    """One job of a file: parameters of `tgpu submit`, and fields of the API as they stand."""

    file: str
    line: int  # 0 in the head of a script, of which only options can be wrong
    options: JobOptions = field(default_factory=dict)
    fields: Mapping[str, object] = field(default_factory=dict)
    # By option, how the file calls it and on which line it does.
    places: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def placed(self, failure: Failure) -> Failure:
        """The same failure in the words of the file, with its line: --gpus is `gpus` there."""
        option, colon, rest = failure.message.partition(": ")
        if colon and option in self.places:
            name, line = self.places[option]
            failure.message = f"{self.file}, line {line}: {name}: {rest}"
        elif self.line and failure.code == "VALIDATION_ERROR":
            failure.message = f"{self.file}, line {self.line}: {failure.message}"
        return failure

    def without(self, typed: frozenset[str]) -> "JobDraft":
        """For mistakes: what was typed does not stand in the file."""
        places = {o: place for o, place in self.places.items() if parameter_of(o) not in typed}
        return replace(self, places=places)


@dataclass(frozen=True, slots=True)
class Given:
    """What stands on the command line: all values, and the names of those that were typed."""

    options: JobOptions
    names: frozenset[str]


def job_options(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Without those that are about the answer, and not about the job."""
    return {name: value for name, value in parameters.items() if name not in ANSWERING}


def laid_over(given: Given, draft: JobDraft) -> tuple[dict[str, Any], dict[str, object]]:
    """The options of the job and its fields of the API: what was typed goes before the file."""
    typed = given.names
    if {"gpus", "auto"} & typed:  # they exclude each other
        typed |= {"gpus", "auto"}
    options = dict(given.options)
    for name, value in draft.options.items():
        if name in _BY_NAME:
            options[name] = _by_name(value, options.get(name) or ())
        elif name not in typed:
            options[name] = value
    fields = {name: value for name, value in draft.fields.items() if _stands(name, given.names)}
    return options, fields


def _by_name(file: Sequence[str], typed: Sequence[str]) -> list[str]:
    """NAME=VALUE of both; of a name that both have, what was typed."""
    taken = {pair.partition("=")[0] for pair in typed}
    return [*(pair for pair in file if pair.partition("=")[0] not in taken), *typed]


def _stands(field_name: str, typed: frozenset[str]) -> bool:
    if field_name == "params":  # by name, where the request is made
        return True
    flag = FLAGS_BY_FIELD.get(field_name)
    return flag is None or parameter_of(flag) not in typed
