"""A user's own defaults: ~/.config/tgpu/config.toml."""

import os
import re
import secrets
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tgpu.cli.environment import config_home, home_relative, variables
from tgpu.cli.failures import Failure, bad_input
from tgpu.text.json_words import toml_place
from tgpu.text.system_words import system_words

if TYPE_CHECKING:
    from tgpu.client.http import Client

# What can be set there, with the variable that beats it.
KEYS: Final[Mapping[str, str]] = {"tenant": "TGPU_TENANT"}
_LARGEST: Final = 1 << 16
_NAME: Final = re.compile(r"[^\s/\x00-\x1f\x7f]{1,128}")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A value, and where it came from: "--tenant", "TGPU_TENANT" or the file's path."""

    value: str
    source: str


def config_file() -> Path:
    return config_home() / "tgpu" / "config.toml"


def chosen(key: str, flag: str | None) -> Chosen | None:
    """A flag beats the variable, which beats the file; None where none of them says anything."""
    if flag:
        return Chosen(flag, f"--{key}")
    variable = KEYS[key]
    if told := variables().get(variable, ""):
        return Chosen(_checked(key, told, variable), variable)
    kept = read().get(key)
    return None if kept is None else Chosen(kept, home_relative(config_file()))


@contextmanager
def naming(found: Chosen | None) -> Iterator[None]:
    """What is refused about a value is said of where it came from, and not of an option."""
    try:
        yield
    except Failure as failure:
        if found is not None and failure.message.startswith("--tenant: "):
            failure.message = f"{found.source}: {failure.message.removeprefix('--tenant: ')}"
        raise


def tenant_of(client: "Client", flag: str | None) -> str:
    """The tenant of a command that needs one: as chosen, else the caller's own."""
    found = chosen("tenant", flag)
    return found.value if found is not None else client.whoami().tenant or "default"


def read() -> dict[str, str]:
    """What the file says; nothing where there is none. Failure for one that cannot be."""
    path = config_file()
    shown = home_relative(path)
    try:
        with path.open("rb") as file:
            content = tomllib.loads(file.read(_LARGEST).decode())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Failure(
            f"cannot read {shown}: {system_words(error)}", f"rm {path}", code="OS_ERROR"
        ) from error
    except ValueError as error:
        remedy = "fix it, or remove it and use: tgpu config set tenant NAME"
        raise bad_input(
            f'{shown}{toml_place(str(error))} is not TOML: write lines like tenant = "vision"',
            remedy,
        ) from error
    return {key: _checked(key, value, shown) for key, value in content.items()}


def write(values: Mapping[str, str]) -> Path:
    """Whole or not at all, and for this user alone."""
    path = config_file()
    lines = [f"{key} = {_quoted(value)}" for key, value in sorted(values.items())]
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(beside, flags, 0o600), "w") as file:
            file.write("".join(f"{line}\n" for line in lines))
        beside.replace(path)
    except OSError as error:
        raise Failure(
            f"cannot write {home_relative(path)}: {system_words(error)}", code="OS_ERROR"
        ) from error
    finally:
        beside.unlink(missing_ok=True)
    return path


def check_key(key: str) -> str:
    if key not in KEYS:
        there = ", ".join(KEYS)
        raise bad_input(
            f"{key!r} is not one of your settings; there is: {there}",
            "settings of the scheduler are in its own file: tgpu config show",
        )
    return key


def check_value(key: str, value: str) -> str:
    return _checked(key, value, f"tgpu config set {key}")


def _checked(key: str, value: object, source: str) -> str:
    if key not in KEYS:
        raise bad_input(f"{source}: {key!r} is not known there; there is: {', '.join(KEYS)}")
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise bad_input(f"{source}: {value!r} is not a tenant name", "tgpu whoami lists yours")
    return value


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
