"""A typed client of the REST API, and the means to find or start the service of one user.

    from tgpu.client import AsyncClient, Client, SubmitRequest

Loaded on first use: a command that only prints its help need not wait for an HTTP library.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tgpu.client.aio import AsyncClient
    from tgpu.client.errors import (
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
    from tgpu.client.http import Client
    from tgpu.wire.v1 import SubmitRequest

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
    "AsyncClient": "tgpu.client.aio",
    "Client": "tgpu.client.http",
    "SubmitRequest": "tgpu.wire.v1",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "tgpu.client.errors")), name)
