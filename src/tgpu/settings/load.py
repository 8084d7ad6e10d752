"""Settings from flags, the environment, a file and defaults, each over the next."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tgpu.settings.errors import SettingsError
from tgpu.settings.files import FileContent, Place, read_file
from tgpu.settings.keys import PREFIX, Key, all_keys, allowed_at, names_at
from tgpu.settings.masking import MASK, mask_url
from tgpu.settings.model import Settings
from tgpu.settings.process import default_data_dir, process_environ
from tgpu.settings.setting_aliases import (
    IDLE_OWN,
    KEEP,
    Idle,
    Renamed,
    alias_variables,
    checked,
    names_in,
    setting_aliases,
)
from tgpu.text.json_words import json_words
from tgpu.wire.complaints import remedy_of

# How the command line spells keys, so that a mistake is reported in the user's own words.
_FLAGS: Final[Mapping[str, str]] = {
    "data_dir": "--data-dir",
    "api.host": "--host",
    "api.http_port": "--port",
    "api.socket": "--socket",
    "api.insecure_listen": "--insecure-listen",
    "devices.gpus": "--gpus",
    "engine.screen": "--screen",
    "engine.tmux": "--tmux",
    "logging.level": "--log-level",
    "logging.format": "--log-format",
}
_BESIDE: Final = (
    ("files", "jobs_file"),
    ("files", "llm_config_file"),
    ("files", "log_file"),
    ("logging", "file"),
)
# Kubernetes sets these for every service whose name begins with gpu-scheduler; they are not ours.
_KUBERNETES = re.compile(
    r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)=.*|\w+_PORT=\w+://.*"
)


@dataclass(frozen=True, slots=True)
class WithoutEffect:
    """A value that was given, found right, and changes nothing."""

    name: str
    value: object
    origin: str


@dataclass(frozen=True, slots=True)
class OldName:
    """A setting that was given by the name it had in earlier versions."""

    name: str
    to: str
    origin: str

    def sentence(self) -> str:
        return f"{self.name} is the old name of {self.to}"


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings, and where each came from."""

    settings: Settings
    origins: Mapping[str, str]  # by dotted key; a key that is not there has its default
    without_effect: tuple[WithoutEffect, ...]
    old_names: tuple[OldName, ...] = ()

    def secrets_from(self, file: Path) -> list[str]:
        """The keys of secrets that this file holds."""
        return [
            name
            for name, origin in self.origins.items()
            if origin.startswith(str(file)) and _is_secret(name)
        ]


def load_settings(
    config_file: Path | None = None,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """The settings that hold, or SettingsError with every problem found.

    `flags` has dotted keys ("api.http_port"); a flag that is None was not given. `environ` is the
    process's own when left out; an empty variable counts as not set.
    """
    return load_with_origins(config_file, flags, environ).settings


def load_with_origins(
    config_file: Path | None = None,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """As `load_settings`, with the origin of every value."""
    environ = process_environ() if environ is None else environ
    merged = _Merged()
    if config_file is not None:
        merged.add_file(read_file(config_file), str(config_file))
    merged.add_environment(environ)
    for name, value in (flags or {}).items():
        if value is not None:
            merged.put(name, value, _FLAGS.get(name, f"flag {name}"))
    settings = merged.settings()
    if settings.data_dir is None:
        settings = settings.model_copy(update={"data_dir": default_data_dir(environ)})
    idle, old = tuple(merged.without_effect), tuple(merged.old_names)
    return LoadedSettings(settings, merged.origins(settings), idle, old)


class _Merged:
    """The sources laid over each other, and where each value came from."""

    def __init__(self) -> None:
        self.content: dict[str, Any] = {}
        self.without_effect: list[WithoutEffect] = []
        self.old_names: list[OldName] = []
        self._origin: dict[str, str] = {}
        self._file = ""
        self._lines: Mapping[Place, int] = {}
        self._problems: list[str] = []

    def settings(self) -> Settings:
        try:
            settings = Settings.model_validate(self.content)
        except ValidationError as error:
            self._problems += [self.sentence(mistake) for mistake in error.errors()]
            raise SettingsError(self._problems) from None  # the chain would show what is secret
        if self._problems:
            raise SettingsError(self._problems)
        for name in IDLE_OWN:
            if name in self._origin:
                shown = MASK if _is_secret(name) else _value_at(settings, name)
                self.without_effect.append(WithoutEffect(name, shown, self._origin[name]))
        return settings

    def origins(self, settings: Settings) -> dict[str, str]:
        found = {key.name: self._origin[key.name] for key in all_keys() if key.name in self._origin}
        if settings.database.kind == "postgresql" and "database.kind" not in found:
            chosen_by = "url" if settings.database.url is not None else "host"
            found["database.kind"] = f"database.{chosen_by} is set"
        return found

    def add_file(self, file: FileContent, name: str) -> None:
        self._file, self._lines = name, file.lines
        for section, value in file.values.items():
            if value is None:
                continue  # "api:" with all its keys commented out is an empty section
            self.content[section] = dict(value) if isinstance(value, Mapping) else value
        self._beside_the_file(Path(name))
        for key in all_keys():
            section, leaf = key.section, key.leaf
            place = self.content.get(section) if section else self.content
            if isinstance(place, dict) and leaf in place:
                self._origin[key.name] = self._in_file(tuple(key.name.split(".")))
        for alias in setting_aliases().values():
            section, _, leaf = alias.name.partition(".")
            place = self.content.get(section)
            if isinstance(place, dict) and leaf in place:
                self._take_alias(alias, place.pop(leaf), self._in_file((section, leaf)))
        self._clear_alias_sections()

    def _beside_the_file(self, file: Path) -> None:
        """Files that the service reads, and its log, are relative to the settings file.

        Where the service is started in the background, it has another working directory.
        """
        for section, leaf in _BESIDE:
            place = self.content.get(section)
            if not isinstance(place, dict):
                continue
            given = place.get(leaf)
            if isinstance(given, str) and given and not given.startswith(("~", "/")):
                place[leaf] = str(file.absolute().parent / given)

    def add_environment(self, environ: Mapping[str, str]) -> None:
        for variable, name in alias_variables().items():
            if environ.get(variable):
                text = environ[variable]
                value = json.loads(text) if _is_json_list(text) else text
                self._take_alias(setting_aliases()[name], value, variable)
        for key in all_keys():
            for variable in reversed(key.variables):  # the strongest last
                if environ.get(variable):
                    self.put(key.name, _from_text(key, environ[variable], variable), variable)
        self._problems += [_unknown_variable(name) for name in sorted(_strangers(environ))]

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

    def _take_alias(self, key: Renamed | Idle, value: object, origin: str) -> None:
        try:
            if isinstance(key, Idle):
                accepted = checked(key, value)
                self.without_effect.append(WithoutEffect(key.name, accepted, origin))
                return
            meant = key.convert(value)
        except ValueError as error:
            self._problems.append(f"{origin}: {key.name} {error}, not {_shown(value)}")
            return
        if key.to in self._origin and origin.startswith(self._file) and self._file:
            self._problems.append(
                f"{origin}: {key.name} is another name for {key.to}, which is there as well: "
                "leave one of them out"
            )
        elif meant is not KEEP:
            self.put(key.to, meant, f"{origin} ({key.name})")
            if key.is_old:
                self.old_names.append(OldName(key.name, key.to, origin))

    def _clear_alias_sections(self) -> None:
        """What is left of sections that are not ours at all: keys that nobody knows."""
        ours = set(Settings.model_fields)
        for section in dict.fromkeys(name.partition(".")[0] for name in setting_aliases()):
            if section in ours or section not in self.content:
                continue
            rest = self.content.pop(section)
            if not isinstance(rest, dict):
                where = self._in_file((section,))
                self._problems.append(
                    f"{where}: {section} must be a section with keys of its own, not {_shown(rest)}"
                )
                continue
            for leaf in rest:
                path = (section, str(leaf))
                self._problems.append(
                    f"{self._in_file(path)}: {_dotted(path)} is not a setting{_nearest(path)}"
                )

    def _in_file(self, path: Place) -> str:
        for length in range(len(path), 0, -1):
            line = self._lines.get(path[:length])
            if line is not None:
                return f"{self._file}, line {line}"
        return self._file

    def sentence(self, mistake: ErrorDetails) -> str:
        path: Place = tuple(step for step in mistake["loc"] if step != "[key]")
        path = getattr(mistake.get("ctx", {}).get("error"), "path", path)
        where = self._where(path)
        if mistake["type"] == "extra_forbidden":
            return f"{where}: {_dotted(path)} is not a setting{_nearest(path)}"
        if mistake["type"] == "missing":
            return f"{where}: {_dotted(path)} is missing"
        if mistake["type"] == "value_error" and (len(path) == 0 or names_at(path)):
            # A rule about several keys: its sentence says all, there is no one value to show.
            return f"{where}: {_prefix(path)}{mistake['ctx']['error']}"
        remedy = _remedy(mistake, path)
        shown = "what is there (not shown)" if _hides(path) else _shown(mistake["input"])
        return f"{where}: {_dotted(path)} {remedy}, not {shown}"

    def _where(self, path: Place) -> str:
        for length in (2, 1):
            name = ".".join(str(step) for step in path[:length])
            origin = self._origin.get(name)
            if origin is not None:
                is_deeper = len(path) > length and origin.startswith(self._file)
                return self._in_file(path) if self._file and is_deeper else origin
        # A rule about several keys of a section: wherever they came from.
        dotted = ".".join(str(step) for step in path)
        inside = [origin for name, origin in self._origin.items() if name.startswith(f"{dotted}.")]
        if names_at(path) and inside:
            return ", ".join(dict.fromkeys(inside))
        return (self._in_file(path) if self._file else "") or "settings"


def _from_text(key: Key, text: str, variable: str) -> object:
    """A variable's text as a value: pydantic reads numbers and truth, the rest is JSON."""
    if isinstance(key.default, tuple | dict):
        kind = "a list" if isinstance(key.default, tuple) else "an object"
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise SettingsError(
                [f"{variable}: {key.name} must be {kind} written as JSON: {json_words(error.msg)}"]
            ) from error
    return text


def _strangers(environ: Mapping[str, str]) -> Iterator[str]:
    """Variables that look like settings of ours and are none: most likely typing errors."""
    known = {variable for key in all_keys() for variable in key.variables}
    known |= set(alias_variables())
    names = [*(key.name for key in all_keys() if key.section), *setting_aliases()]
    sections = tuple({f"{PREFIX}{name.partition('.')[0].upper()}_" for name in names})
    for name, value in environ.items():
        if not name.startswith(PREFIX) or name in known or not value:
            continue
        if _KUBERNETES.fullmatch(f"{name}={value}"):
            continue
        if name.startswith(sections) or get_close_matches(name, known, n=1, cutoff=0.9):
            yield name


def _unknown_variable(name: str) -> str:
    known = [variable for key in all_keys() for variable in key.variables]
    known += alias_variables()
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"{name}: is not a setting" + (f"; did you mean {near[0]}?" if near else "")


def _nearest(path: Place) -> str:
    """The right key for a wrong one: the same word elsewhere, else the nearest."""
    *parents, wrong = path
    by_leaf = {key.leaf: key.name for key in all_keys()}
    if wrong in by_leaf:
        return f"; did you mean {by_leaf[str(wrong)]}?"
    there = names_at(tuple(parents))
    known_here = (*there, *(names_in(str(parents[0])) if len(parents) == 1 else ()))
    siblings = get_close_matches(str(wrong), known_here, n=1, cutoff=0.6)
    if siblings:
        return f"; did you mean {_dotted((*parents, siblings[0]))}?"
    others = get_close_matches(str(wrong), by_leaf, n=1, cutoff=0.7)
    if others:
        return f"; did you mean {by_leaf[others[0]]}?"
    return f"; there are: {', '.join(there)}" if there else ""


def _remedy(mistake: ErrorDetails, path: Place) -> str:
    if mistake["type"] == "value_error":
        return str(mistake["ctx"]["error"])
    if mistake["type"] == "string_type" and isinstance(mistake["input"], int | float):
        return "must be a text: put it in quotes"
    allowed = allowed_at(path)
    return f"must be {allowed}" if allowed else remedy_of(mistake)


def _dotted(path: Place) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def _prefix(path: Place) -> str:
    return f"{_dotted(path)}: " if path else ""


def _shown(value: object) -> str:
    text = mask_url(repr(value))
    return text if len(text) <= 80 else f"{text[:77]}..."


def _is_secret(name: str) -> bool:
    return any(key.is_secret and key.name == name for key in all_keys())


def _hides(path: Place) -> bool:
    """Whether what stands there is a secret, or may have one inside."""
    dotted = ".".join(str(step) for step in path)
    if path[:1] == ("notices",):  # the address of a webhook is as good as a password
        return len(path) < 3 or path[2] == "url"
    secrets = [key.name for key in all_keys() if key.is_secret]
    return any(f"{name}.".startswith(f"{dotted}.") for name in secrets)


def _value_at(settings: Settings, name: str) -> object:
    value: object = settings
    for step in name.split("."):
        value = getattr(value, step)
    return value


def _is_json_list(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list)
    except ValueError:
        return False
