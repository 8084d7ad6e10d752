"""Runs a service with its HTTP, metrics and gRPC ports until it is stopped."""

import asyncio
import contextlib
import gc
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
import uvicorn
import uvloop
from fastapi import FastAPI

from tgpu import __version__
from tgpu.api.auth.authenticator import Authenticator
from tgpu.api.auth.refusals import Refusals
from tgpu.api.auth.tls import BadCertificate, Certificate, certificate_of
from tgpu.api.auth.tokens import BadAuthSettings, tokens_of
from tgpu.api.auth.web_pages import WebPages
from tgpu.api.rest.app import make_app
from tgpu.api.rest.body_limits import BodyLimits
from tgpu.api.rest.gate import AuthGate, Entrance, ForOperators
from tgpu.api.streams import Streams
from tgpu.app.compose import make_notices, make_service
from tgpu.app.disk_words import with_disk
from tgpu.app.doors import door_rules
from tgpu.app.listen import (
    GRPC_REMEDY,
    Listening,
    data_directory,
    listen,
    listen_for_scrapes,
    remove_service_file,
    without_taken_grpc_port,
    write_service_file,
)
from tgpu.app.refusal import CannotServe, CannotServeYet, EndedItself
from tgpu.app.run_as import check_run_as
from tgpu.app.secret_files import check_secret_files
from tgpu.app.user_map import warn_of_map
from tgpu.connections.budget import connection_limits
from tgpu.connections.server import GuardedServer
from tgpu.core.errors import SchedulerError
from tgpu.devices.api import NoDriver
from tgpu.devices.detect import SIM_STATE_FILE, Detected, detect
from tgpu.engines.api import EngineUnavailable
from tgpu.engines.local.descriptors import raise_limit
from tgpu.engines.local.processes import keep_memory_private
from tgpu.log import set_up_logging
from tgpu.notices.dispatch import Dispatch
from tgpu.notices.metrics import NoticeMetrics
from tgpu.service.recording.writer import StateApart
from tgpu.service.service import Service
from tgpu.settings import NO_EFFECT, OldName, Settings, WithoutEffect
from tgpu.store.api import StoreAway, StoreUnavailable
from tgpu.telemetry.counts import Counts
from tgpu.telemetry.disk import DiskMetrics
from tgpu.telemetry.exposition import Exposition, MetricsPort
from tgpu.telemetry.job_log import JobLog
from tgpu.telemetry.metrics import make_registry
from tgpu.telemetry.requests import RequestLog
from tgpu.text.system_words import system_words
from tgpu.token_buckets import TokenBuckets

_log = structlog.get_logger("gpu_scheduler")

_SCRAPERS = 64  # connections of the metrics port
_APART_SECONDS = 3  # to send answers, where the service ends by itself
MUST_RESTART = 70  # the exit code then; sysexits(3) calls it an internal software error


def serve(
    settings: Settings,
    without_effect: Sequence[WithoutEffect] = (),
    old_names: Sequence[OldName] = (),
) -> None:
    """Run the service until it is told to end. Raises CannotServe and EndedItself.

    `without_effect` are settings that were given and change nothing, `old_names` those that were
    given by a name of before; the log names them once.
    """
    try:
        set_up_logging(settings.logging)
    except OSError as error:
        raise CannotServe(
            f"logging.file: {settings.logging.file} cannot be written: {system_words(error)}"
        ) from None
    door_rules(settings)  # before anything is listened on
    check_run_as(settings)
    check_secret_files(settings)
    warn_of_map(settings)
    with (
        data_directory(settings) as data_dir,
        listen(settings) as listening,
        listen_for_scrapes(settings) as scrapes,
    ):
        settings = without_taken_grpc_port(settings)
        try:
            detected = detect(
                settings.devices.gpus,
                sim_state_file=data_dir / SIM_STATE_FILE,
                expected=settings.devices.expected_gpus,
            )
        except NoDriver as error:
            raise CannotServe(_no_gpus(settings.devices.gpus, error)) from None
        except ValueError as error:
            raise CannotServe(f"devices.gpus: {error}") from None
        _log.info("gpus", found=detected.sentence)
        _warn_of_settings(settings, detected, without_effect)
        for old in old_names:
            _log.warning("setting has a new name", old=old.name, new=old.to, source=old.origin)
        keep_memory_private()  # environments of jobs are in it, and keys
        raise_limit()  # a connection is a descriptor, and there may be thousands
        try:
            uvloop.run(_serve(settings, data_dir, listening, scrapes, detected))
        except CannotServe as error:  # whatever it was that could not be written
            raise type(error)(with_disk(str(error), data_dir)) from error


def _warn_of_settings(
    settings: Settings, detected: Detected, without_effect: Sequence[WithoutEffect]
) -> None:
    for given in without_effect:
        _log.warning(f"setting {NO_EFFECT}", key=given.name, source=given.origin)
    expected = settings.devices.expected_gpus
    if expected is not None:
        found = len(detected.provider.read().gpus)
        if found != expected:
            _log.warning("another number of GPUs than expected", expected=expected, found=found)


def _gate(settings: Settings, app: FastAPI) -> AuthGate:
    try:
        tokens = tokens_of(settings.auth)
    except BadAuthSettings as error:
        raise CannotServe(str(error)) from None
    app.state.authenticator = Authenticator(lambda: app.state.service, door_rules(settings), tokens)
    limits = settings.limits
    # One budget for each caller, whichever door they come through.
    app.state.buckets = TokenBuckets(limits.requests_per_second, limits.burst)
    app.state.refusals = Refusals()
    return AuthGate(
        app,
        app.state.authenticator,
        buckets=app.state.buckets,
        refusals=app.state.refusals,
        body_limits=BodyLimits(limits.max_body_mb, limits.max_ingest_mb, limits.max_batch_mb),
        pages=WebPages(settings.api.allowed_hosts),
    )


def _tls(settings: Settings) -> dict[str, Any]:
    """How uvicorn wants to be told of a certificate."""
    certificate = _certificate(settings)
    if certificate is None:
        return {}
    return {"ssl_certfile": certificate.certificate, "ssl_keyfile": certificate.key}


def _certificate(settings: Settings) -> Certificate | None:
    try:
        return certificate_of(settings.api)
    except BadCertificate as error:
        raise CannotServe(str(error)) from None


def _end(server: uvicorn.Server, app: FastAPI) -> None:
    # The first signal lets requests finish, and answers long polls now; the second cuts them off.
    if app.state.service is not None:
        app.state.service.stop_waiting()
    server.force_exit = server.should_exit
    server.should_exit = True


async def _serve(
    settings: Settings,
    data_dir: Path,
    listening: Listening,
    scrapes: socket.socket | None,
    detected: Detected,
) -> None:
    counts = Counts()
    registry = make_registry(counts)
    exposition = Exposition(registry)
    app = make_app(data_dir=str(data_dir), exposition=exposition)
    app.state.streams = Streams(settings.limits.streams_per_caller, settings.limits.streams)
    gate = _gate(settings, app)
    server = GuardedServer(
        RequestLog(gate),
        connection_limits(settings.limits),
        **_tls(settings),
        timeout_graceful_shutdown=math.ceil(settings.api.shutdown_seconds),
    )
    for ending in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(ending, _end, server, app)
    service = make_service(settings, data_dir, detected, [counts, JobLog()])
    notices = app.state.notices = make_notices(settings, service)
    registry.register(NoticeMetrics(notices))
    registry.register(app.state.refusals)
    registry.register(DiskMetrics(service.disk, lambda: service.stuck_reads))
    opening = asyncio.create_task(_open(service, app, server, data_dir, listening))
    watching = asyncio.create_task(_end_when_apart(service, server))
    try:
        async with (
            _answering_scrapes(exposition, scrapes, app, settings),
            _answering_grpc(settings, app, data_dir, opening),
        ):
            await server.serve(listening.sockets)
    finally:
        app.state.service = None
        remove_service_file(data_dir)
        watching.cancel()
        if not opening.cancelled() and not opening.done():
            opening.cancel()  # a database that hangs must not keep us
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await opening
        finally:
            service.feed.close()  # where it ends by other ways than a signal
            await notices.close()
            await service.close()
            _log.info("stopped; running jobs continue")
    if service.ended_because is not None:
        raise EndedItself(service.ended_because)


async def _end_when_apart(service: Service, server: uvicorn.Server) -> None:
    """At once: callers are answered by then, and nobody is to decide on a state that is wrong."""
    await service.ended.wait()
    server.config.timeout_graceful_shutdown = _APART_SECONDS
    server.should_exit = True
    last_resort = threading.Timer(_APART_SECONDS * 5, os._exit, [MUST_RESTART])
    last_resort.daemon = True
    last_resort.start()


@contextlib.asynccontextmanager
async def _answering_scrapes(
    exposition: Exposition, listening: socket.socket | None, app: FastAPI, settings: Settings
) -> AsyncIterator[None]:
    if listening is None:
        yield
        return
    limits = replace(connection_limits(settings.limits), most=_SCRAPERS)
    server = GuardedServer(
        ForOperators(
            MetricsPort(exposition),
            Entrance(app.state.authenticator, WebPages(settings.api.allowed_hosts)),
            app.state.refusals,
            app.state.buckets,
        ),
        limits,
        **_tls(settings),
        timeout_graceful_shutdown=1,
    )
    serving = asyncio.create_task(server.serve([listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


@contextlib.asynccontextmanager
async def _answering_grpc(
    settings: Settings, app: FastAPI, data_dir: Path, opening: asyncio.Task[None]
) -> AsyncIterator[None]:
    api = settings.api
    if not (api.http_port and api.grpc_port):
        yield
        return
    # Imported here: a service that has no such port starts faster without.
    from tgpu.api.grpc.gate import GrpcGate
    from tgpu.api.grpc.server import CannotListen, GrpcServer

    limits = settings.limits
    gate = GrpcGate(
        app.state.authenticator,
        lambda: app.state.service,
        app.state.buckets,
        app.state.refusals,
        listening=(api.host, api.grpc_port),
    )
    server = GrpcServer(
        lambda: app.state.service,
        data_dir=str(data_dir),
        interceptors=[gate],
        max_message_mib=limits.max_body_mb,
        max_connections=max(16, limits.connections // 4),
        streams=app.state.streams,
    )
    certificate = _certificate(settings)
    try:
        await server.start(
            api.host, api.grpc_port, None if certificate is None else certificate.pem()
        )
    except CannotListen as error:
        raise CannotServe(f"{error}; {GRPC_REMEDY}") from None

    async def tell_when_ready() -> None:
        await asyncio.wait([opening])
        if app.state.service is not None:
            await server.ready()

    telling = asyncio.create_task(tell_when_ready())
    try:
        yield
    finally:
        telling.cancel()
        await server.stop()
        gate.close()


async def _open(
    service: Service, app: FastAPI, server: uvicorn.Server, data_dir: Path, listening: Listening
) -> None:
    notices: Dispatch = app.state.notices
    try:
        await service.open()
        await notices.open()
    except StateApart:
        server.should_exit = True
        return  # `_serve` says so
    except StoreAway as error:
        server.should_exit = True
        raise CannotServeYet(str(error)) from error
    except (StoreUnavailable, EngineUnavailable, SchedulerError) as error:
        server.should_exit = True
        raise CannotServe(with_disk(str(error), data_dir)) from error
    except BaseException:
        server.should_exit = True
        raise
    # Jobs live long: the collector need not look at what was just loaded, and seldom at the rest.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    # The store's thread needs the interpreter for moments only, and must not wait 5 ms for each:
    # beside a busy loop small commits are several times as fast with this.
    sys.setswitchinterval(0.0005)
    app.state.service = service
    try:
        write_service_file(data_dir, listening)
    except OSError as error:  # a full disk: jobs can be asked for all the same
        _log.warning("the command line may not find this service", problem=str(error))
    if bare := service.run_as.without_user():
        _log.warning(
            "tenants without a user that jobs of API keys and tokens could run as: such jobs are "
            "refused until one is set with: tgpu tenants change TENANT --run-as USER",
            tenants=bare[:20],
        )
    _log.info(
        "ready",
        version=__version__,
        listening=listening.url or str(listening.path),
        store=service.store.name,
        jobs=service.reads.live_count(),
    )


def _no_gpus(spec: str, error: NoDriver) -> str:
    return (
        f"devices.gpus: no GPUs with {spec}: {error}; auto (the default) uses what there is, "
        "sim:4xA100 simulates GPUs"
    )
