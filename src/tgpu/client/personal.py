"""The personal service of a user: its files, and what service.json says about it."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tgpu.client.target import Target, parse_target, unix_target

# sun_path is 108 bytes with its closing zero (unix(7)).
_LONGEST_SOCKET: Final = 107


@dataclass(frozen=True, slots=True)
class Announcement:
    """service.json: written once the service listens, removed when it ends cleanly."""

    pid: int
    version: str
    socket: Path | None
    url: str | None

    @property
    def target(self) -> Target | None:
        if self.socket is not None:
            return unix_target(self.socket)
        try:
            return parse_target(self.url) if self.url else None
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class PersonalService:
    data_dir: Path

    @property
    def log_file(self) -> Path:
        return self.data_dir / "service.log"

    @property
    def announcement_file(self) -> Path:
        return self.data_dir / "service.json"

    @property
    def start_lock(self) -> Path:
        return self.data_dir / "start.lock"

    @property
    def socket(self) -> Path:
        """In the data directory, or in a short private one where that path is too long."""
        inside = self.data_dir / "service.sock"
        if len(os.fsencode(inside)) <= _LONGEST_SOCKET:
            return inside
        name = hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:16]
        return Path("/tmp", f"tgpu-{os.getuid()}", f"{name}.sock")

    def announcement(self) -> Announcement | None:
        """None where there is no service.json, or none that we can read."""
        try:
            raw = json.loads(self.announcement_file.read_bytes())
            socket, url = raw.get("socket"), raw.get("url")
            return Announcement(
                pid=int(raw["pid"]),
                version=str(raw.get("version", "")),
                socket=Path(socket) if socket else None,
                url=str(url) if url else None,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def target(self) -> Target:
        """Where it listens, or would listen."""
        announced = self.announcement()
        found = announced.target if announced is not None else None
        return found or unix_target(self.socket)
