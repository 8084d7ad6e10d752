"""Finds the conda, venv or uv environment of a command, and wraps the command for it.

Called in the child that becomes the command, as the job's user and in its directory: what is looked
at here is what that user may look at, and a disk that hangs holds up this one start. Words are put
together, never passed through a shell. Nothing here runs anything.
"""

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from tgpu.engines.local.commands import DEFAULT_PATH, NotStarted

_CONDA_PLACES: Final = (
    *("~/miniconda3", "~/anaconda3", "~/miniforge3", "~/mambaforge"),
    *("/opt/conda", "/opt/miniconda3", "/opt/anaconda3", "/opt/miniforge3"),
)
_UV_PLACES: Final = ("~/.local/bin/uv", "~/.cargo/bin/uv", "/usr/local/bin/uv")

_MOST_BYTES: Final = 1 << 20  # of a list of environments
_MOST_NAMES: Final = 1000
_SHOWN_NAMES: Final = 20


def resolved(command: dict[str, Any]) -> dict[str, Any]:
    """The command with the words and variables of its environment. Raises NotStarted."""
    if "environment" not in command:
        return command
    kind, name = command["environment"]
    argv, env = list(command["argv"]), dict(command["env"])
    here = _Here(env, command.get("home", "/"), command["cwd"])
    if kind == "venv":
        env |= _venv(name, here)
    elif kind == "conda":
        argv = [*_conda(name, here), *argv]
    elif kind == "uv":
        argv = [*_uv(name, here), *argv]
    else:
        raise NotStarted(f"there are no environments of the kind {kind}", retry=False)
    return command | {"argv": argv, "env": env}


class _Here(NamedTuple):
    """Where a job looks for programs and files."""

    variables: Mapping[str, str]
    home: str
    cwd: str

    @property
    def path(self) -> str:
        return self.variables.get("PATH", DEFAULT_PATH)

    def file(self, path: str) -> str:
        """Absolute: relative to where the job runs."""
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        return os.path.normpath(os.path.join(self.cwd, path))

    def program(self, name: str, places: Iterable[str]) -> str | None:
        on_path = (os.path.join(part or ".", name) for part in self.path.split(os.pathsep))
        return next((p for p in map(self.file, (*on_path, *places)) if _is_program(p)), None)


def _venv(given: str, here: _Here) -> dict[str, str]:
    venv = here.file(given)
    if not _is_program(os.path.join(venv, "bin", "python")):
        remedy = f"there is no {venv}/bin/python; make it with: python3 -m venv {venv}"
        raise _refusal("venv", given, remedy)
    return {"VIRTUAL_ENV": venv, "PATH": f"{venv}/bin{os.pathsep}{here.path}"}


def _uv(given: str, here: _Here) -> tuple[str, ...]:
    project = here.file(given)
    if not os.path.isfile(os.path.join(project, "pyproject.toml")):
        raise _refusal("uv", given, f"there is no {project}/pyproject.toml")
    uv = here.program("uv", _UV_PLACES)
    if uv is None:
        raise _refusal("uv", given, "there is no uv on the job's PATH; install it")
    return (uv, "run", "--project", project, "--")


def _conda(given: str, here: _Here) -> tuple[str, ...]:
    conda = _find_conda(here)
    if conda is None:
        remedy = "there is no conda on the job's PATH, nor where it is usually installed"
        raise _refusal("conda", given, remedy)
    run = (conda, "run", "--no-capture-output")
    if "/" in given:
        prefix = here.file(given)
        if not os.path.isdir(prefix):
            raise _refusal("conda", given, f"there is no directory {prefix}")
        return (*run, "-p", prefix)
    known = _conda_names(conda, here)
    if known is not None and given not in known:
        there = ", ".join(known[:_SHOWN_NAMES])
        raise _refusal("conda", given, f"no such environment; there are: {there}")
    return (*run, "-n", given)


def _find_conda(here: _Here) -> str | None:
    told = here.variables.get("CONDA_EXE", "")
    places = [told] if os.path.isabs(told) else []
    return here.program("conda", [*places, *(f"{place}/bin/conda" for place in _CONDA_PLACES)])


def _conda_names(conda: str, here: _Here) -> list[str] | None:
    """Of the environments there are; None where conda is set up in a way that is not plain."""
    root = os.path.dirname(os.path.dirname(os.path.realpath(conda)))
    if not os.path.isdir(os.path.join(root, "conda-meta")):
        return None
    folders = [os.path.join(root, "envs"), os.path.join(here.home, ".conda", "envs")]
    for name in ("CONDA_ENVS_PATH", "CONDA_ENVS_DIRS"):
        folders += [part for part in here.variables.get(name, "").split(":") if part]
    found = {"base"}
    for folder in folders:
        found.update(_subfolders(folder))
    found.update(_registered(os.path.join(here.home, ".conda", "environments.txt")))
    return sorted(found)


def _subfolders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, _MOST_NAMES) if entry.is_dir()]
    except OSError:
        return []


def _registered(file: str) -> list[str]:
    """Conda keeps a list of all the environments that a user made."""
    try:
        text = _text(file)
    except OSError:
        return []
    lines = (line.strip() for line in text.splitlines())
    return [os.path.basename(line) for line in islice(filter(None, lines), _MOST_NAMES)]


def _text(file: str) -> str:
    # Without waiting for a writer, should a pipe stand in its place.
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return os.read(descriptor, _MOST_BYTES).decode(errors="replace")
    finally:
        os.close(descriptor)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _refusal(kind: str, given: str, remedy: str) -> NotStarted:
    return NotStarted(f"{kind} {given}: {remedy}", retry=False)
