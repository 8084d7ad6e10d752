"""The options of a gateway."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tgpu.connections.budget import USUAL, ConnectionLimits


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """ValueError for an address that is none."""

    upstream: str  # of the service
    host: str = "127.0.0.1"
    port: int = 8090
    redis_url: str | None = None
    cache_seconds: float = 1.0
    requests_per_second: float = 0.0  # of each caller; 0 for no limit
    burst: int = 100
    api_key: str | None = None  # what the gateway shows for itself, to follow the events
    insecure_listen: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    shutdown_seconds: float = 2.0
    connections: ConnectionLimits = USUAL

    def __post_init__(self) -> None:
        # Not a Unix socket: the service would take every caller for whoever runs the gateway.
        parts = urlsplit(self.upstream)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise ValueError(f"{self.upstream!r} must be written as http://host:port")
        if parts.username is not None:
            raise ValueError("the address of the scheduler must be without a password")
