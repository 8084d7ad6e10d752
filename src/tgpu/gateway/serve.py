"""Runs a gateway until it is stopped."""

import asyncio
import math
import os
import signal
import socket
from pathlib import Path
from typing import Any

import structlog
import uvloop

from tgpu import __version__
from tgpu.connections.listening import bound_socket
from tgpu.connections.server import GuardedServer
from tgpu.gateway.app import Gateway
from tgpu.gateway.options import GatewayOptions
from tgpu.gateway.upstream import UpstreamAway
from tgpu.settings.model import is_loopback
from tgpu.telemetry.requests import RequestLog
from tgpu.text.system_words import system_words

_log = structlog.get_logger("gpu_scheduler.gateway")


class GatewayCannotServe(Exception):
    """Why the gateway does not start, with what to do about it, in a sentence."""


def serve(options: GatewayOptions) -> None:
    """Raises CannotServe."""
    with _listen(options.host, options.port) as listening:
        uvloop.run(_serve(options, listening))


async def _serve(options: GatewayOptions, listening: socket.socket) -> None:
    try:
        gateway = Gateway(options)
    except ImportError:
        raise GatewayCannotServe(
            "--redis needs the extra of that name: pip install 'tgpu[redis]'"
        ) from None
    except ValueError as error:
        raise GatewayCannotServe(f"--redis: {error}") from None
    async with gateway:
        await _check_safe(options, gateway)
        server = GuardedServer(
            RequestLog(gateway),
            options.connections,
            date_header=False,  # the service's is passed on
            **_tls(options.tls_cert, options.tls_key),
            timeout_graceful_shutdown=math.ceil(options.shutdown_seconds),
        )

        def end() -> None:
            gateway.end_streams()
            server.force_exit = server.should_exit
            server.should_exit = True

        for ending in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(ending, end)
        _log.info(
            "ready",
            version=__version__,
            listening=f"{options.host}:{options.port}",
            upstream=options.upstream,
            redis=options.redis_url is not None,
        )
        await server.serve([listening])
    _log.info("stopped")


async def _check_safe(options: GatewayOptions, gateway: Gateway) -> None:
    """What the service allows to callers on its own machine must not become open to all others."""
    if is_loopback(options.host) or (options.insecure_listen and os.geteuid() != 0):
        return
    try:
        asks = await gateway.asks_who_calls()
    except UpstreamAway as error:
        raise GatewayCannotServe(
            f"the scheduler at {options.upstream} cannot be reached ({error}), so it is not "
            f"known whether it authenticates callers: start it first{_or_insist()}"
        ) from None
    if not asks:
        raise GatewayCannotServe(
            f"host {options.host!r} can be reached from other machines, and the scheduler at "
            f"{options.upstream} does not authenticate callers: use 127.0.0.1, or set auth.enabled "
            f"there{_or_insist()}"
        )


def _or_insist() -> str:
    if os.geteuid() == 0:
        return (
            "; a gateway run by root would make all callers root, so --insecure-listen is not "
            "allowed"
        )
    return ", or use --insecure-listen"


def _tls(certificate: Path | None, key: Path | None) -> dict[str, Any]:
    if certificate is None and key is None:
        return {}
    for file in (certificate, key):
        if file is None or not file.is_file():
            raise GatewayCannotServe(
                f"--tls-cert and --tls-key must both name files; {file} is none"
            )
    return {"ssl_certfile": certificate, "ssl_keyfile": key}


def _listen(host: str, port: int) -> socket.socket:
    try:
        return bound_socket(host, port)
    except OSError as error:
        raise GatewayCannotServe(
            f"cannot listen on {host}:{port}: {system_words(error)}; choose another --port"
        ) from None
