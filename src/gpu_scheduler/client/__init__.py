"""A typed client of the REST API, and the means to find or start the service of one user.

    from gpu_scheduler.client import AsyncClient, Client, SubmitRequest

Loaded on first use: a command that only prints its help need not wait for an HTTP library.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_scheduler.client.aio import AsyncClient
    from gpu_scheduler.client.errors import (
        BadAnswer,
        ClientError,
        Conflict,
        Denied,
        Invalid,
        Lost,
        NoService,
        NotFound,
        TimedOut,
        Unavailable,
    )
    from gpu_scheduler.client.http import Client
    from gpu_scheduler.wire.v1 import SubmitRequest

__all__ = [
    "AsyncClient",
    "BadAnswer",
    "Client",
    "ClientError",
    "Conflict",
    "Denied",
    "Invalid",
    "Lost",
    "NoService",
    "NotFound",
    "SubmitRequest",
    "TimedOut",
    "Unavailable",
]

_HOMES = {
    "AsyncClient": "gpu_scheduler.client.aio",
    "Client": "gpu_scheduler.client.http",
    "SubmitRequest": "gpu_scheduler.wire.v1",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "gpu_scheduler.client.errors")), name)
