"""The text of our systemd unit, and where it belongs. Pure: nothing here touches the disk."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

UNIT: Final = "gpu-scheduler.service"
_SYSTEM_FOLDER: Final = Path("/etc/systemd/system")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_@:,./=+-]+")
# Between the end of its own patience with open requests and systemd's: to close the database.
_SPARE_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class Unit:
    """What differs between units."""

    command: Sequence[str]
    is_system: bool
    shutdown_seconds: float
    user: str = ""  # of a system unit; nothing for root

    @property
    def systemctl(self) -> str:
        return "systemctl" if self.is_system else "systemctl --user"


def unit_path(is_system: bool, config_home: Path) -> Path:
    folder = _SYSTEM_FOLDER if is_system else config_home / "systemd" / "user"
    return folder / UNIT


def unit_text(unit: Unit) -> str:
    lines = [
        "[Unit]",
        "Description=tgpu: queue and run jobs on GPUs",
        *(["After=network-online.target", "Wants=network-online.target"] if unit.is_system else []),
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={' '.join(map(_word, unit.command))}",
        *([f"User={unit.user}"] if unit.user else []),
        "Restart=on-failure",
        "RestartSec=2",
        "# Invalid settings do not fix themselves.",
        "RestartPreventExitStatus=2",
        "# Stop only the service: the supervisor and the jobs continue, and are picked up again.",
        "KillMode=process",
        f"TimeoutStopSec={round(unit.shutdown_seconds) + _SPARE_SECONDS}",
        "# Jobs get control groups of their own, which limit their memory as a whole.",
        "Delegate=memory",
        "# The first for the service; jobs may raise theirs to the second.",
        "LimitNOFILE=65536:524288",
        "",
        "[Install]",
        f"WantedBy={'multi-user.target' if unit.is_system else 'default.target'}",
    ]
    return "\n".join(lines) + "\n"


def _word(word: str) -> str:
    """One word of a command line as systemd reads it: % and $ would be replaced."""
    escaped = word.replace("%", "%%").replace("$", "$$")
    if _PLAIN.fullmatch(word):
        return escaped
    quoted = escaped.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{quoted}"'
