"""A real service with authentication on, callers of every role, and secrets that stay inside."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import grpc
import httpx
import jwt

from tests.real_service import RealService, free_port

SECRET: Final = b"a secret of more than thirty-two bytes"
OURS, THEIRS = "ours", "theirs"
# In all that belongs to the other tenant. Whoever is bound to `ours` must never read it.
CANARY: Final = "canary7f3a"

# The tenants of each caller, None for all of them.
CALLERS: Final[dict[str, tuple[str, list[str] | None]]] = {
    "admin": ("admin", None),
    "operator": ("operator", None),
    "admin of a tenant": ("admin", [OURS]),
    "user": ("user", [OURS]),
    "viewer": ("viewer", [OURS]),
}
BOUND: Final = frozenset(name for name, (_, tenants) in CALLERS.items() if tenants is not None)
STRANGERS: Final = ("nobody", "forger")


class Target(RealService):
    def __init__(self, directory: Path) -> None:
        self.grpc_port = free_port()
        secret = directory / "jwt.secret"
        secret.write_bytes(SECRET)
        secret.chmod(0o600)
        super().__init__(
            directory,
            settings={
                # Generated commands are queued and stored, and never run.
                "engine": {"kind": "none"},
                "auth": {"enabled": True, "jwt_secret_file": str(secret)},
                "api": {"grpc_port": self.grpc_port},
                "limits": {"requests_per_second": 0},
            },
            tenants=[{"tenant_id": OURS}, {"tenant_id": THEIRS, "name": CANARY}],
        )

    def headers(self, caller: str) -> dict[str, str]:
        if caller == "nobody":
            # A wrong key instead of none: on this machine a caller without one is known by the uid.
            return {"Authorization": "Bearer tgpu_0000000000_nothing"}
        role, tenants = CALLERS.get(caller, ("admin", None))
        claims: dict[str, object] = {"sub": role, "exp": time.time() + 3600, "role": role}
        if tenants is not None:
            claims["tenants"] = tenants
        key = SECRET[::-1] if caller == "forger" else SECRET
        return {"Authorization": f"Bearer {jwt.encode(claims, key, 'HS256')}"}

    def metadata(self, caller: str) -> tuple[tuple[str, str], ...]:
        return (("authorization", self.headers(caller)["Authorization"]),)

    def channel(self) -> grpc.Channel:
        address = f"127.0.0.1:{self.grpc_port}"
        return grpc.insecure_channel(address, options=(("grpc.enable_http_proxy", 0),))

    def as_admin(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=self.headers("admin"), trust_env=False)

    def is_well(self) -> bool:
        """It lives and answers; a service that died of an input ended the whole campaign."""
        assert self.process is not None
        return self.process.poll() is None and self.http.get("/api/v1/health").status_code == 200


@contextmanager
def a_target(directory: Path) -> Iterator[Target]:
    with Target(directory) as target:
        target.start()
        _plant(target)
        yield target


def _plant(target: Target) -> None:
    """Everything that a tenant can have, with the canary in each."""
    with target.as_admin() as http:
        for number in range(3):
            job = {
                "job_id": f"{CANARY}-{number}",
                "tenant_id": THEIRS,
                "name": f"{CANARY} training",
                "user": f"{CANARY}-ada",
                "gpu_count": 4,
                "command": ["python", f"{CANARY}.py"],
                "environment": {"PLACE": CANARY},
            }
            _made(http.post("/api/v1/jobs", json=job))
        _made(http.post("/api/v1/jobs", json={"job_id": "ours-1", "tenant_id": OURS}))
        queue = {"project_id": THEIRS, "name": CANARY}
        _made(http.post("/api/v1/queues", json=queue))


def _made(answer: httpx.Response) -> None:
    assert answer.status_code in (200, 201), answer.text
