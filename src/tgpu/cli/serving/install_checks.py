"""Checks before a systemd unit is written: users, ports, running services."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tgpu.accounts.system import account_named, account_of
from tgpu.cli.connect import personal_service
from tgpu.cli.environment import home_relative, variables
from tgpu.cli.failures import bad_input
from tgpu.cli.render.words import plural
from tgpu.client.autostart import find_running
from tgpu.client.errors import ClientError
from tgpu.client.http import Client
from tgpu.client.personal import PersonalService

if TYPE_CHECKING:
    from tgpu.settings import Settings


@dataclass(frozen=True, slots=True)
class InstallObstacles:
    """What to know before the unit is started, and the steps that come first."""

    notes: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


def check_user(name: str) -> None:
    """Failure with the command that makes a user who is not there."""
    if not name:
        return
    if account_named(name) is None:
        raise bad_input(
            f"--user-name: there is no user {name!r} on this machine",
            f"create it with: sudo useradd --system --create-home {name}",
        )


def in_the_way(settings: "Settings", data_dir: Path, *, has_port: bool) -> InstallObstacles:
    """`data_dir` is the unit's own; `has_port`: it listens on TCP."""
    notes: list[str] = []
    steps: list[str] = []
    for service in _personal_services():
        told = _running(service)
        if not told:
            continue
        if data_dir.resolve() == service.data_dir.resolve():
            notes.append(
                f"a personal scheduler runs on the same data directory ({told}): only one can "
                "run. Stop it first; running jobs continue, and the unit takes them over"
            )
            steps.append("tgpu stop")
        else:
            notes.append(
                f"a personal scheduler stays beside the unit ({told}), and `tgpu` uses it until "
                "TGPU_URL names the other; both would assign the same GPUs. Let its jobs end, "
                "then stop it with: tgpu stop"
            )
    if has_port and not steps and _is_taken(settings.api.host, settings.api.http_port):
        notes.append(
            f"something listens on {settings.api.host}:{settings.api.http_port} already, so the "
            "unit could not start: stop it, or choose another api.http_port (--config)"
        )
    return InstallObstacles(tuple(notes), tuple(steps))


def _personal_services() -> list[PersonalService]:
    """This user's, and under sudo that of whoever calls it."""
    found = [personal_service()]
    caller = variables().get("SUDO_UID", "")
    if caller.isdigit() and int(caller) != os.getuid():
        account = account_of(int(caller))
        if account is not None:
            found.append(PersonalService(Path(account.home) / ".local" / "share" / "tgpu"))
    return found


def _running(service: PersonalService) -> str:
    """What runs there, for a sentence; nothing where nobody answers."""
    try:
        health = find_running(service, timeout_seconds=5)
        if health is None:
            return ""
        with Client(service.target(), timeout_seconds=5) as client:
            status = client.cluster_status()
    except ClientError:
        return ""
    jobs = f"{plural(status.running_jobs, 'running job')}, {status.pending_jobs} waiting"
    return f"pid {health.pid}, data in {home_relative(service.data_dir)}, {jobs}"


def _is_taken(host: str, port: int) -> bool:
    if not port:
        return False
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
