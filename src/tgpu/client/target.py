"""Where a service listens: a TCP address or a Unix socket, as users write it."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Target:
    """`socket` is None for TCP. `str()` gives back what a user may pass as `--api-url`."""

    base_url: str
    socket: Path | None = None

    @property
    def is_local(self) -> bool:
        """No proxy stands between us and this machine, whatever the environment says."""
        return self.socket is not None or urlsplit(self.base_url).hostname in _LOOPBACK

    @property
    def is_plain(self) -> bool:
        """Nothing is encrypted: no certificate is to be checked."""
        return self.socket is not None or urlsplit(self.base_url).scheme == "http"

    def __str__(self) -> str:
        return self.base_url if self.socket is None else f"unix:{self.socket}"


def unix_target(socket: Path) -> Target:
    # The host is never looked up; it only fills the Host header.
    return Target("http://localhost", socket)


def parse_target(text: str) -> Target:
    """Reads http://host:port or unix:/path; ValueError says what to write."""
    remedy = "write http://host:port or unix:/path/to.sock"
    scheme, colon, rest = text.strip().partition(":")
    if colon and scheme == "unix":
        path = Path(rest.removeprefix("//"))
        if not path.is_absolute():
            raise ValueError(f"{text!r} needs an absolute path: {remedy}")
        return unix_target(path)
    try:
        parts = urlsplit(text.strip())
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is no number, or too large; a bracket that is not closed
        valid = False
    if not valid:
        raise ValueError(f"{text!r} is not an address of a scheduler: {remedy}")
    return Target(text.strip().rstrip("/"))
