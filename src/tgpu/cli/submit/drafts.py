"""A job as a file describes it, merged with the options of the command line."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tgpu.cli.failures import Failure
from tgpu.cli.submit.submission import Typed, option_of

# Parameters of `tgpu submit` that have other names in what was typed.
_TYPED: Final = {"param": "params", "label": "labels", "node": "nodes", "not_node": "not_nodes"}
_DENIED: Final = {"no_env": "send_env", "no_preempt": "preemptible"}
# Each of these sets one name; the others of the file stay as they are.
_BY_NAME: Final = ("env", "label", "param", "secret")


@dataclass(frozen=True, slots=True)
class JobDraft:
    """One job of a file: parameters of `tgpu submit`, and fields of the API as they stand."""

    file: str
    line: int  # 0 in the head of a script, of which only options can be wrong
    options: Mapping[str, Any] = field(default_factory=dict)
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
        places = {o: place for o, place in self.places.items() if _parameter(o) not in typed}
        return replace(self, places=places)


@dataclass(frozen=True, slots=True)
class Given:
    """What stands on the command line: all values, and the names of those that were typed."""

    typed: Typed
    cwd: str | None
    names: frozenset[str]


def laid_over(given: Given, draft: JobDraft) -> tuple[Typed, str | None, dict[str, object]]:
    """The job, its directory and its fields of the API: what was typed goes before the file."""
    changes: dict[str, Any] = {}
    cwd = given.cwd
    for name, value in draft.options.items():
        if name == "cwd":
            cwd = given.cwd if "cwd" in given.names else value
        elif name in _BY_NAME:
            into = _TYPED.get(name, name)
            changes[into] = _by_name(value, getattr(given.typed, into))
        elif name not in given.names:
            into = _TYPED.get(name) or _DENIED.get(name) or name
            changes[into] = not value if name in _DENIED else value
    if {"gpus", "auto"} & given.names:  # they exclude each other
        changes = {name: value for name, value in changes.items() if name not in ("gpus", "auto")}
    fields = {name: value for name, value in draft.fields.items() if _stands(name, given.names)}
    return replace(given.typed, **changes), cwd, fields


def _by_name(file: list[str], typed: list[str]) -> list[str]:
    """NAME=VALUE of both; of a name that both have, what was typed."""
    taken = {pair.partition("=")[0] for pair in typed}
    return [*(pair for pair in file if pair.partition("=")[0] not in taken), *typed]


def _stands(field_name: str, typed: frozenset[str]) -> bool:
    if field_name == "params":  # by name, where the request is made
        return True
    option = option_of(field_name)
    return option is None or _parameter(option) not in typed


def _parameter(option: str) -> str:
    name = option.removeprefix("--").replace("-", "_")
    return {"type": "gpu_type", "id": "job_id"}.get(name, name)
