"""The checks of `tgpu doctor`. Each looks at one thing and never raises."""

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tgpu import __version__
from tgpu.cli import connect
from tgpu.cli.doctor import fence_checks, machine_checks, service_checks
from tgpu.cli.doctor.leftover_checks import leftovers
from tgpu.cli.environment import config_home, home_relative, variables
from tgpu.cli.failures import Failure
from tgpu.cli.findings import Check, FindingLevel
from tgpu.cli.render.gpus import provider_line, shown_names
from tgpu.client.errors import ClientError, NoService
from tgpu.client.http import Client
from tgpu.client.personal import PersonalService
from tgpu.devices.driver import has_driver
from tgpu.host.processes import lives
from tgpu.text.instants import in_local_time

_LEAST_FREE_BYTES: Final = 1024**3  # logs and the database grow by less than this in a day
_FAIL_FREE_BYTES: Final = 64 * 1024**2  # about where SQLite refuses to grow its log
_RESTART: Final = "tgpu stop; tgpu start"
_OLDEST_PYTHON: Final = (3, 11)


def examine(api_url: str | None, config: Path | None = None, *, fix: bool = False) -> list[Check]:
    """All checks, in the order in which a person would go."""
    first = [
        _python(sys.version_info[:3]),
        machine_checks.settings(variables(), config),
    ]
    url = api_url or connect.url_before_command.get()
    if url is not None and config is None:
        return [*first, *_elsewhere(url)]
    service = _service_of(config)
    checks = [
        *first,
        data_dir(service.data_dir),
        machine_checks.file_system(service.data_dir),
        disk(service.data_dir),
        machine_checks.open_files(),
        machine_checks.sessions(),
        *machine_checks.units(config_home()),
        *leftovers(service.data_dir, fix=fix),
    ]
    try:
        chosen = url if config is None else str(service.target())
        with connect.open_client(chosen, timeout_seconds=10) as client:
            return [*checks, *_of_service(client, service)]
    except Failure as failure:
        return [*checks, Check("service", FindingLevel.FAIL, failure.message)]


def _elsewhere(url: str) -> list[Check]:
    """Of a service that was named: nothing of this machine's own has to do with it."""
    try:
        with connect.open_client(url, timeout_seconds=10) as client:
            return _of_service(client, None)
    except Failure as failure:
        return [Check("service", FindingLevel.FAIL, failure.message)]


def _service_of(config: Path | None) -> PersonalService:
    """The user's own, or the one that a settings file is for."""
    if config is None:
        return connect.personal_service()
    from tgpu.settings import SettingsError, load_settings

    try:
        settings = load_settings(config)
    except SettingsError:  # a check of its own tells
        return connect.personal_service()
    return PersonalService(settings.data_directory)


def _python(version: tuple[int, ...]) -> Check:
    text = ".".join(str(part) for part in version)
    if version[:2] < _OLDEST_PYTHON:
        return Check(
            "python", FindingLevel.FAIL, f"{text} is too old", "install Python 3.11 or newer"
        )
    return Check("python", FindingLevel.OK, f"{text}, tgpu {__version__}")


def data_dir(path: Path) -> Check:
    shown = home_relative(path)
    if not path.exists():
        return _missing_data_dir(path, shown)
    if not path.is_dir():
        return Check(
            "data", FindingLevel.FAIL, f"{shown} is not a directory", f"mv {path} {path}.old"
        )
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return Check("data", FindingLevel.FAIL, f"{shown} cannot be written", f"chmod u+rwx {path}")
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        finding = f"{shown} is open to others (mode {mode:o}): they could reach your jobs"
        return Check("data", FindingLevel.WARN, finding, f"chmod 700 {path}")
    return Check("data", FindingLevel.OK, f"{shown} exists and is private")


def _missing_data_dir(path: Path, shown: str) -> Check:
    parent = next(parent for parent in path.parents if parent.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        return Check(
            "data",
            FindingLevel.FAIL,
            f"{shown} does not exist and cannot be created in {parent}",
            "set TGPU_DATA_DIR to a directory that you can write",
        )
    return Check("data", FindingLevel.OK, f"{shown} will be created at the first start")


def disk(path: Path, usage: Callable[[Path], tuple[int, int, int]] = shutil.disk_usage) -> Check:
    place = path if path.exists() else next(parent for parent in path.parents if parent.exists())
    total, _, free = usage(place)
    finding = f"{free / 1024**3:.1f} of {total / 1024**3:.0f} GiB free"
    if free >= _LEAST_FREE_BYTES:
        return Check("disk", FindingLevel.OK, finding)
    level = FindingLevel.FAIL if free < _FAIL_FREE_BYTES else FindingLevel.WARN
    return Check("disk", level, finding, f"free some space: du -sh {path}/* shows what is large")


def _of_service(client: Client, service: PersonalService | None) -> list[Check]:
    try:
        health = client.health()
    except NoService:
        return [_no_service(client, service), _driver()]
    except ClientError as error:
        finding = f"answers badly: {error.message}"
        return [Check("service", FindingLevel.FAIL, finding, _RESTART)]
    where = f"pid {health.pid} at {client.target}"
    if health.version != __version__:
        finding = f"{where} has version {health.version}, tgpu has {__version__}"
        remedy = _RESTART if service is not None else "upgrade one of the two"
        checks = [Check("service", FindingLevel.WARN, finding, remedy)]
    else:
        checks = [Check("service", FindingLevel.OK, f"{where} answers, version {health.version}")]
    checks += [
        Check("service", FindingLevel.FAIL, in_local_time(text), _mend(text))
        for text in health.problems
    ]
    if service is None:
        checks += service_checks.of_target(client, health.problems)
    if client.target.is_local:
        checks.append(machine_checks.memory_limits(health.pid))
    return [*checks, *_gpus(client), *fence_checks.gpu_fence(client)]


def _mend(problem: str) -> str:
    """The command for what the service says is wrong with it."""
    gpu = re.match(r"GPU (\d+):", problem)
    if gpu is not None:
        return f"tgpu pause-gpu {gpu[1]}"
    if problem.startswith("GPU driver:"):
        return "nvidia-smi; sudo dmesg | grep -i -e nvrm -e xid"
    if problem.startswith("disk:"):
        return "free some space; tgpu doctor shows how much there is"
    if problem.startswith("store:"):
        return "check the disk space and the rights of the data directory"
    return _RESTART


def _no_service(client: Client, service: PersonalService | None) -> Check:
    if service is None:
        finding = f"nobody answers at {client.target}"
        return Check("service", FindingLevel.FAIL, finding, "check --api-url or TGPU_URL")
    announced = service.announcement()
    if announced is None:
        return Check(
            "service", FindingLevel.OK, "none runs; `tgpu submit` or `tgpu start` starts it"
        )
    if lives(announced.pid):
        finding = f"service.json names pid {announced.pid}, which runs but does not answer"
        return Check("service", FindingLevel.FAIL, finding, f"kill {announced.pid}; tgpu start")
    finding = f"it crashed (pid {announced.pid} is gone); running jobs continued"
    return Check("service", FindingLevel.WARN, finding, "tgpu start")


def _driver() -> Check:
    """Without a service to ask, only whether there is a driver at all."""
    if has_driver():
        return Check(
            "GPUs", FindingLevel.OK, "an NVIDIA driver is installed; the service will check it"
        )
    finding = "no NVIDIA driver found: the service will simulate GPUs"
    return Check(
        "GPUs", FindingLevel.WARN, finding, "install the driver, or choose --gpus sim:8xA100"
    )


def _gpus(client: Client) -> list[Check]:
    try:
        found = client.gpus()
    except ClientError as error:
        return [Check("GPUs", FindingLevel.FAIL, error.message)]
    level = (
        FindingLevel.WARN if found.simulated or found.problem or not found.gpus else FindingLevel.OK
    )
    checks = [Check("GPUs", level, provider_line(found))]
    for gpu, name in zip(found.gpus, shown_names(found.gpus), strict=True):
        if gpu.paused:
            finding = f"GPU {name} is paused: {gpu.paused}"
            checks.append(Check("GPUs", FindingLevel.WARN, finding, f"tgpu resume-gpu {name}"))
        others = [process.pid for process in gpu.processes if process.job_id is None]
        if others:
            pids = ", ".join(str(pid) for pid in others)
            checks.append(
                Check(
                    "GPUs", FindingLevel.WARN, f"GPU {name} is used by other programs: pid {pids}"
                )
            )
    return checks
