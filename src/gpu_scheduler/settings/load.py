"""Settings from flags, the environment, a file and defaults, each over the next."""

import json
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gpu_scheduler.settings.errors import SettingsError
from gpu_scheduler.settings.files import read_file
from gpu_scheduler.settings.keys import PREFIX, Key, all_keys, allowed_at, names_at
from gpu_scheduler.settings.model import Settings
from gpu_scheduler.settings.process import default_data_dir, process_environ

# How the command line spells keys, so that a mistake is reported in the user's own words.
_FLAGS: Final[Mapping[str, str]] = {
    "data_dir": "--data-dir",
    "api.host": "--host",
    "api.http_port": "--port",
    "api.socket": "--socket",
    "api.insecure_listen": "--insecure-listen",
    "devices.gpus": "--gpus",
    "logging.level": "--log-level",
    "logging.format": "--log-format",
}
# Kubernetes sets these for every service whose name begins with gpu-scheduler; they are not ours.
_KUBERNETES = re.compile(
    r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)=.*|\w+_PORT=\w+://.*"
)

Place = tuple[str | int, ...]


def load_settings(
    config_file: Path | None = None,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """The settings that hold, or SettingsError with every problem found.

    `flags` has dotted keys ("api.http_port"); a flag that is None was not given. `environ` is the
    process's own when left out; an empty variable counts as not set.
    """
    environ = process_environ() if environ is None else environ
    merged = _Merged()
    if config_file is not None:
        merged.add_file(read_file(config_file), str(config_file))
    merged.add_environment(environ)
    for name, value in (flags or {}).items():
        if value is not None:
            merged.put(name, value, _FLAGS.get(name, f"flag {name}"))
    try:
        settings = Settings.model_validate(merged.content)
    except ValidationError as error:
        raise SettingsError([merged.sentence(mistake) for mistake in error.errors()]) from error
    if settings.data_dir is None:
        return settings.model_copy(update={"data_dir": default_data_dir(environ)})
    return settings


class _Merged:
    """The sources laid over each other, and where each value came from."""

    def __init__(self) -> None:
        self.content: dict[str, Any] = {}
        self._origin: dict[str, str] = {}
        self._file = ""

    def add_file(self, content: Mapping[str, Any], name: str) -> None:
        self._file = name
        for section, value in content.items():
            if value is None:
                continue  # "api:" with all its keys commented out is an empty section
            self.content[section] = dict(value) if isinstance(value, Mapping) else value

    def add_environment(self, environ: Mapping[str, str]) -> None:
        for key in all_keys():
            for variable in reversed(key.variables):  # the strongest last
                if environ.get(variable):
                    self.put(key.name, _from_text(key, environ[variable], variable), variable)
        strangers = [_unknown_variable(name) for name in sorted(_strangers(environ))]
        if strangers:
            raise SettingsError(strangers)

    def put(self, name: str, value: object, origin: str) -> None:
        *sections, leaf = name.split(".")
        place = self.content
        for section in sections:
            inner = place.setdefault(section, {})
            if not isinstance(inner, dict):
                return  # the file has something else there, which is the mistake to report
            place = inner
        place[leaf] = value
        self._origin[name] = origin

    def sentence(self, mistake: ErrorDetails) -> str:
        path = tuple(step for step in mistake["loc"] if step != "[key]")
        where = self._where(path)
        if mistake["type"] == "extra_forbidden":
            return f"{where}: {_dotted(path)} is not a setting{_nearest(path)}"
        if mistake["type"] == "missing":
            return f"{where}: {_dotted(path)} is missing"
        if mistake["type"] == "value_error" and (len(path) == 0 or names_at(path)):
            # A rule about several keys: its sentence says all, there is no one value to show.
            return f"{where}: {_prefix(path)}{mistake['ctx']['error']}"
        remedy = _remedy(mistake, path)
        return f"{where}: {_dotted(path)} {remedy}, not {_shown(mistake['input'])}"

    def _where(self, path: Place) -> str:
        dotted = ".".join(str(step) for step in path)
        for length in (2, 1):
            origin = self._origin.get(".".join(str(step) for step in path[:length]))
            if origin is not None:
                return origin
        # A rule about several keys of a section: wherever they came from.
        inside = [origin for name, origin in self._origin.items() if name.startswith(f"{dotted}.")]
        if inside and names_at(path):
            return ", ".join(inside)
        return self._file or "settings"


def _from_text(key: Key, text: str, variable: str) -> object:
    """A variable's text as a value: pydantic reads numbers and truth, lists are JSON."""
    if isinstance(key.default, tuple):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise SettingsError(
                [f"{variable}: {key.name} must be a list written as JSON: {error.msg}"]
            ) from error
    return text


def _strangers(environ: Mapping[str, str]) -> Iterator[str]:
    """Variables that look like settings of ours and are none: most likely typing errors."""
    known = {variable for key in all_keys() for variable in key.variables}
    sections = tuple(f"{PREFIX}{key.section.upper()}_" for key in all_keys() if key.section)
    for name, value in environ.items():
        if not name.startswith(PREFIX) or name in known or not value:
            continue
        if _KUBERNETES.fullmatch(f"{name}={value}"):
            continue
        if name.startswith(sections) or get_close_matches(name, known, n=1, cutoff=0.9):
            yield name


def _unknown_variable(name: str) -> str:
    known = [variable for key in all_keys() for variable in key.variables]
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"{name}: is not a setting" + (f"; did you mean {near[0]}?" if near else "")


def _nearest(path: Place) -> str:
    """The right key for a wrong one: the same word elsewhere, else the nearest."""
    *parents, wrong = path
    by_leaf = {key.leaf: key.name for key in all_keys()}
    if wrong in by_leaf:
        return f"; did you mean {by_leaf[str(wrong)]}?"
    siblings = get_close_matches(str(wrong), names_at(tuple(parents)), n=1, cutoff=0.6)
    if siblings:
        return f"; did you mean {_dotted((*parents, siblings[0]))}?"
    others = get_close_matches(str(wrong), by_leaf, n=1, cutoff=0.7)
    if others:
        return f"; did you mean {by_leaf[others[0]]}?"
    there = names_at(tuple(parents))
    return f"; there are: {', '.join(there)}" if there else ""


def _remedy(mistake: ErrorDetails, path: Place) -> str:
    if mistake["type"] == "value_error":
        return str(mistake["ctx"]["error"])
    if mistake["type"] == "string_type" and isinstance(mistake["input"], int | float):
        return "must be a text: put it in quotes"
    allowed = allowed_at(path)
    return f"must be {allowed}" if allowed else mistake["msg"]


def _dotted(path: Place) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def _prefix(path: Place) -> str:
    return f"{_dotted(path)}: " if path else ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
