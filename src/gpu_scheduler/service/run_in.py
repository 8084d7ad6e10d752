"""Commands inside a conda, venv or uv environment: wrapped word by word, never through a shell.

Only looks at files and runs nothing: what is found may be another user's.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpu_scheduler.core.errors import InvalidRequest
from gpu_scheduler.service.submission import RunIn, Submission

_CONDA_PLACES: Final = (
    *("~/miniconda3", "~/anaconda3", "~/miniforge3", "~/mambaforge"),
    *("/opt/conda", "/opt/miniconda3", "/opt/anaconda3", "/opt/miniforge3"),
)
_UV_PLACES: Final = ("~/.local/bin/uv", "~/.cargo/bin/uv", "/usr/local/bin/uv")


def wrapped(submission: Submission, variables: Mapping[str, str], home: str) -> Submission:
    """The submission with a command that runs in the environment it names.

    `variables` are those it will have, its own included; InvalidRequest where it cannot run.
    """
    run_in = submission.run_in
    if run_in is None or run_in == RunIn():
        return submission
    chosen = [name for name in ("conda", "venv", "uv") if getattr(run_in, name)]
    if len(chosen) > 1:
        raise InvalidRequest(chosen[1], getattr(run_in, chosen[1]), f"{chosen[0]} is there as well")
    detail = submission.detail
    if not detail.argv:
        raise InvalidRequest(chosen[0], getattr(run_in, chosen[0]), "needs a command to run in it")
    here = _Here(variables, home, detail.cwd or home)
    if run_in.venv:
        env = {**dict(detail.env), **_of_venv(run_in.venv, here)}
        detail = replace(detail, env=tuple(sorted(env.items())))
    elif run_in.conda:
        detail = replace(detail, argv=(*_conda(run_in.conda, here), *detail.argv))
    else:
        detail = replace(detail, argv=(*_uv(run_in.uv, here), *detail.argv))
    return replace(submission, detail=detail, run_in=None)


class _Here:
    """Where a job looks for programs and files."""

    def __init__(self, variables: Mapping[str, str], home: str, cwd: str) -> None:
        self.variables = variables
        self.home = home
        self.path = variables.get("PATH", os.defpath)
        self._cwd = cwd

    def file(self, path: str) -> str:
        """Absolute: relative to where the job runs."""
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        return os.path.normpath(os.path.join(self._cwd, path))

    def program(self, name: str, places: Iterable[str]) -> str | None:
        found = shutil.which(name, path=self.path)
        if found is not None:
            return os.path.abspath(found)
        return next((p for p in map(self.file, places) if os.access(p, os.X_OK)), None)


def _of_venv(given: str, here: _Here) -> dict[str, str]:
    venv = here.file(given)
    if not os.access(os.path.join(venv, "bin", "python"), os.X_OK):
        remedy = f"there is no {venv}/bin/python; make it with: python3 -m venv {venv}"
        raise InvalidRequest("venv", given, remedy)
    return {"VIRTUAL_ENV": venv, "PATH": f"{venv}/bin{os.pathsep}{here.path}"}


def _uv(given: str, here: _Here) -> tuple[str, ...]:
    project = here.file(given)
    if not os.path.isfile(os.path.join(project, "pyproject.toml")):
        raise InvalidRequest("uv", given, f"there is no {project}/pyproject.toml")
    uv = here.program("uv", _UV_PLACES)
    if uv is None:
        raise InvalidRequest("uv", given, "there is no uv on the job's PATH; install it")
    return (uv, "run", "--project", project, "--")


def _conda(given: str, here: _Here) -> tuple[str, ...]:
    conda = _find_conda(here)
    if conda is None:
        remedy = "there is no conda on the job's PATH, nor where it is usually installed"
        raise InvalidRequest("conda", given, remedy)
    run = (conda, "run", "--no-capture-output")
    if given.startswith("-"):
        raise InvalidRequest("conda", given, "is no name of an environment")
    if "/" in given:
        prefix = here.file(given)
        if not os.path.isdir(prefix):
            raise InvalidRequest("conda", given, f"there is no directory {prefix}")
        return (*run, "-p", prefix)
    known = _conda_names(conda, here)
    if known is not None and given not in known:
        there = ", ".join(known[:20])
        raise InvalidRequest("conda", given, f"no such environment; there are: {there}")
    return (*run, "-n", given)


def _find_conda(here: _Here) -> str | None:
    told = here.variables.get("CONDA_EXE", "")
    places = [told] if os.path.isabs(told) else []
    return here.program("conda", [*places, *(f"{place}/bin/conda" for place in _CONDA_PLACES)])


def _conda_names(conda: str, here: _Here) -> list[str] | None:
    """Of the environments there are; None where conda is set up in a way that is not plain."""
    root = Path(os.path.realpath(conda)).parent.parent
    if not (root / "conda-meta").is_dir():
        return None
    folders = [root / "envs", Path(here.home, ".conda", "envs")]
    for name in ("CONDA_ENVS_PATH", "CONDA_ENVS_DIRS"):
        folders += [Path(part) for part in here.variables.get(name, "").split(":") if part]
    found = {"base"}
    for folder in folders:
        found.update(_subfolders(folder))
    found.update(_registered(Path(here.home, ".conda", "environments.txt")))
    return sorted(found)


def _subfolders(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return []


def _registered(file: Path) -> list[str]:
    """Conda keeps a list of all the environments that a user made."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [os.path.basename(line.strip()) for line in lines if line.strip()]
