"""The composition root: the one place that names concrete stores, engines and providers."""

import asyncio
import contextlib
import fcntl
import gc
import json
import math
import os
import pwd
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
import uvicorn
import uvloop
from fastapi import FastAPI

from gpu_scheduler import __version__
from gpu_scheduler.api.auth.authenticator import Authenticator
from gpu_scheduler.api.auth.gate import ForOperators, Gate
from gpu_scheduler.api.auth.peer import PeerProtocol
from gpu_scheduler.api.auth.tls import BadCertificate, Certificate, certificate_of
from gpu_scheduler.api.auth.tokens import BadAuthSettings, tokens_of
from gpu_scheduler.api.limits import BodyLimits, TokenBuckets
from gpu_scheduler.api.rest.app import make_app
from gpu_scheduler.core.ids import DEFAULT_TENANT, NodeId
from gpu_scheduler.core.policy import Policy
from gpu_scheduler.core.tenant import Tenant
from gpu_scheduler.core.units import CPU
from gpu_scheduler.database import make_store
from gpu_scheduler.devices.api import NoDriver
from gpu_scheduler.devices.detect import Detected, detect, node_size
from gpu_scheduler.devices.watch import DeviceWatch
from gpu_scheduler.engines.api import Engine, EngineUnavailable
from gpu_scheduler.engines.local.engine import LocalEngine
from gpu_scheduler.engines.local.startup import BOOT_ID_FILE
from gpu_scheduler.log import set_up_logging
from gpu_scheduler.policies import load_policy
from gpu_scheduler.quota import (
    LocalQuotaProvider,
    NotConfigured,
    QuotaProvider,
    load_quota_provider,
)
from gpu_scheduler.service.attempts import LaunchSettings
from gpu_scheduler.service.clock import Clock, ManualClock, WallClock
from gpu_scheduler.service.hardware import Hardware
from gpu_scheduler.service.observer import Observer
from gpu_scheduler.service.service import Service, ServiceSettings
from gpu_scheduler.settings import NO_EFFECT, Settings, WithoutEffect
from gpu_scheduler.settings.process import process_environ
from gpu_scheduler.store.api import Store, StoreUnavailable
from gpu_scheduler.telemetry.counts import Counts
from gpu_scheduler.telemetry.exposition import Exposition, MetricsPort
from gpu_scheduler.telemetry.job_log import JobLog
from gpu_scheduler.telemetry.metrics import make_registry
from gpu_scheduler.telemetry.requests import RequestLog

_log = structlog.get_logger("gpu_scheduler")

# One machine, one name: it must not change when the host is renamed, or the GPUs that running
# jobs hold would belong to a machine that is gone.
LOCAL_NODE = NodeId("local")
# New connections that are taken in one round of the event loop; see _for_crowds.
_ACCEPTS_IN_A_ROUND = 16


_GRPC_REMEDY = (
    "choose another port with --grpc-port (api.grpc_port, GPU_SCHEDULER_API_GRPC_PORT), 0 for none"
)


class CannotServe(Exception):
    """Why the service does not start, with what to do about it, in a sentence."""


@dataclass(frozen=True, slots=True)
class Listening:
    """The sockets the service listens on, and what to call them."""

    sockets: list[socket.socket]
    url: str | None
    path: Path | None


def serve(settings: Settings, without_effect: Sequence[WithoutEffect] = ()) -> None:
    """Run the service until it is told to end. Raises CannotServe.

    `without_effect` are settings that were given and change nothing; the log names them once.
    """
    try:
        set_up_logging(settings.logging)
    except OSError as error:
        raise CannotServe(f"cannot write the log to logging.file: {error}") from None
    with (
        _data_directory(settings) as data_dir,
        _listen(settings) as listening,
        _listen_for_scrapes(settings) as scrapes,
    ):
        _check_grpc_port(settings)
        try:
            detected = detect(settings.devices.gpus)
        except (NoDriver, ValueError) as error:
            raise CannotServe(f"GPUs: {error}") from None
        _log.info("gpus", found=detected.sentence)
        _warn_of_settings(settings, detected, without_effect)
        uvloop.run(_serve(settings, data_dir, listening, scrapes, detected))


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


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn raises them again after serving, before we have closed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """With TLS on the TCP ports alone: a Unix socket never leaves the machine."""
        local = [each for each in sockets or () if each.family == socket.AF_UNIX]
        others = [each for each in sockets or () if each.family != socket.AF_UNIX]
        encryption, self.config.ssl = self.config.ssl, None
        servers = []
        if local:
            await super().startup(local)
            servers = self.servers
        self.config.ssl = encryption
        if others:
            await super().startup(others)
            self.servers = [*servers, *self.servers]


def _gate(settings: Settings, app: FastAPI) -> Gate:
    try:
        tokens = tokens_of(settings.auth)
    except BadAuthSettings as error:
        raise CannotServe(str(error)) from None
    app.state.authenticator = Authenticator(
        lambda: app.state.service, enabled=settings.auth.enabled, tokens=tokens
    )
    limits = settings.limits
    return Gate(
        app,
        app.state.authenticator,
        buckets=TokenBuckets(limits.requests_per_second, limits.burst),
        body_limits=BodyLimits(limits.max_body_mb, limits.max_ingest_mb),
        local_only=not (settings.auth.enabled or settings.api.insecure_listen),
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


def _for_crowds(sockets: Sequence[socket.socket]) -> list[socket.socket]:
    """Each socket several times over; the copies are closed by the server.

    libuv takes one new connection from each in a round of the loop, however many wait. With
    hundreds of busy clients a round takes tens of milliseconds: the last of 250 new ones waited
    for ten seconds.
    """
    return [
        original if copy == 0 else original.dup()
        for original in sockets
        for copy in range(_ACCEPTS_IN_A_ROUND)
    ]


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
    exposition = Exposition(make_registry(counts))
    app = make_app(data_dir=str(data_dir), exposition=exposition)
    gate = _gate(settings, app)
    server = _Server(
        uvicorn.Config(
            RequestLog(gate),
            http=PeerProtocol,
            # Whoever sends X-Forwarded-For from this machine must not choose their own address.
            proxy_headers=False,
            server_header=False,
            **_tls(settings),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=math.ceil(settings.api.shutdown_seconds),
        )
    )
    for ending in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(ending, _end, server, app)
    service = make_service(settings, data_dir, detected, [counts, JobLog()])
    opening = asyncio.create_task(_open(service, app, server, data_dir, listening))
    try:
        async with (
            _answering_scrapes(exposition, scrapes, app, settings),
            _answering_grpc(settings, app, data_dir, opening),
        ):
            await server.serve(_for_crowds(listening.sockets))
    finally:
        app.state.service = None
        _service_file(data_dir).unlink(missing_ok=True)
        try:
            await opening
        finally:
            await service.close()
            _log.info("stopped; running jobs go on")


@contextlib.asynccontextmanager
async def _answering_scrapes(
    exposition: Exposition, listening: socket.socket | None, app: FastAPI, settings: Settings
) -> AsyncIterator[None]:
    if listening is None:
        yield
        return
    server = _Server(
        uvicorn.Config(
            ForOperators(MetricsPort(exposition), app.state.authenticator),
            **_tls(settings),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
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
    from gpu_scheduler.api.auth.grpc_gate import GrpcGate
    from gpu_scheduler.api.grpc.server import CannotListen, GrpcServer

    limits = settings.limits
    gate = GrpcGate(
        app.state.authenticator,
        lambda: app.state.service,
        TokenBuckets(limits.requests_per_second, limits.burst),
    )
    server = GrpcServer(lambda: app.state.service, data_dir=str(data_dir), interceptors=[gate])
    certificate = _certificate(settings)
    try:
        await server.start(
            api.host, api.grpc_port, None if certificate is None else certificate.pem()
        )
    except CannotListen as error:
        raise CannotServe(f"{error}; {_GRPC_REMEDY}") from None

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


async def _open(
    service: Service, app: FastAPI, server: uvicorn.Server, data_dir: Path, listening: Listening
) -> None:
    try:
        await service.open()
    except (StoreUnavailable, EngineUnavailable) as error:
        server.should_exit = True
        raise CannotServe(str(error)) from error
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
        _write_service_file(data_dir, listening)
    except OSError as error:  # a full disk: jobs can be asked for all the same
        _log.warning("the command line may not find this service", problem=str(error))
    _log.info(
        "ready",
        version=__version__,
        listening=listening.url or str(listening.path),
        store=service.store.name,
        jobs=service.state.live_count(),
    )


def make_service(
    settings: Settings,
    data_dir: Path,
    detected: Detected,
    observers: Sequence[Observer] = (),
) -> Service:
    """A service that is not open yet."""
    size = node_size(detected.provider)
    clock: Clock = ManualClock() if settings.scheduler.clock == "manual" else WallClock()
    environ = process_environ()
    hardware = Hardware(
        LOCAL_NODE,
        int(size.cores * settings.devices.cpu_overcommit * CPU),
        int(size.memory_mib * settings.devices.memory_overcommit),
        simulated=detected.provider.simulated,
    )
    return Service(
        store=_make_store(settings),
        engine=_engine(settings, data_dir),
        watch=DeviceWatch(detected.provider, settings.devices.driver_timeout_seconds),
        hardware=hardware,
        clock=clock,
        settings=ServiceSettings(
            policy=_policy(settings),
            tenants=tuple(tenant.to_tenant() for tenant in settings.tenants)
            or (Tenant(DEFAULT_TENANT),),
            launch=LaunchSettings(
                grace_ms=round(settings.engine.grace_seconds * 1000),
                home=environ.get("HOME", "/"),
                default_environment={
                    name: environ[name]
                    for name in ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ")
                    if name in environ
                },
                run_as_uid=_run_as_uid(settings),
            ),
            interval_seconds=settings.scheduler.scheduling_interval_ms / 1000,
            monitor_seconds=settings.devices.monitor_interval_seconds,
            max_queue_size=settings.scheduler.max_queue_size,
            agent_offline_seconds=settings.agents.offline_after_seconds,
            cost_per_gpu_hour=settings.billing.cost_per_gpu_hour,
        ),
        quota=_quota(settings),
        observers=observers,
    )


def _policy(settings: Settings) -> Policy:
    try:
        return load_policy(settings.scheduler.policy, settings.scheduler.aging_seconds)
    except ValueError as error:
        raise CannotServe(f"scheduler.policy: {error}") from error


def _quota(settings: Settings) -> QuotaProvider | None:
    """None for the local one, which reads the service's own books."""
    name = settings.quota.provider
    if name == LocalQuotaProvider.name:
        return None
    try:
        return load_quota_provider(name, lambda _: None)
    except (ValueError, NotConfigured) as error:
        raise CannotServe(f"quota.provider: {error}") from error


def _make_store(settings: Settings) -> Store:
    try:
        return make_store(settings)
    except StoreUnavailable as error:
        raise CannotServe(str(error)) from error


def _run_as_uid(settings: Settings) -> int | None:
    name = settings.engine.run_as
    if not name or os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise CannotServe(f"engine.run_as: there is no user {name!r} on this machine") from None


def _engine(settings: Settings, data_dir: Path) -> Engine | None:
    if settings.engine.kind == "none":
        return None
    # Where pids start anew without a boot, as in a container, its runtime can say so in a file.
    boot_id_file = process_environ().get("TGPU_BOOT_ID_FILE") or BOOT_ID_FILE
    return LocalEngine(data_dir / "engine", boot_id_file=Path(boot_id_file))


@contextlib.contextmanager
def _data_directory(settings: Settings) -> Iterator[Path]:
    """The data directory, ours alone while the service lives."""
    data_dir = settings.data_directory
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (data_dir / "service.lock").open("a+")
    except OSError as error:
        raise CannotServe(
            f"cannot use the data directory {data_dir}: {error.strerror}; "
            "choose another with --data-dir"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotServe(
                f"a service already runs on {data_dir}; `tgpu stop` ends it, "
                "or choose another directory with --data-dir"
            ) from None
        yield data_dir


@contextlib.contextmanager
def _listen(settings: Settings) -> Iterator[Listening]:
    sockets: list[socket.socket] = []
    url = None
    path = _socket_path(settings)
    try:
        if settings.api.http_port:
            sockets.append(_listen_tcp(settings.api.host, settings.api.http_port))
            scheme = "http" if settings.api.tls_cert is None else "https"
            url = f"{scheme}://{_in_url(settings.api.host)}:{settings.api.http_port}"
        if path is not None:
            sockets.append(_listen_unix(path, for_everybody=_serves_everybody(settings)))
        yield Listening(sockets, url, path)
    finally:
        for open_socket in sockets:
            open_socket.close()
        if path is not None and len(sockets) == bool(url) + 1:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _listen_for_scrapes(settings: Settings) -> Iterator[socket.socket | None]:
    """The metrics port. A service that is reached by its Unix socket alone has none."""
    api = settings.api
    if not (api.http_port and api.metrics_port):
        yield None
        return
    remedy = "set api.metrics_port (GPU_SCHEDULER_API_METRICS_PORT) to another, or to 0 for none"
    with _listen_tcp(api.host, api.metrics_port, remedy) as listening:
        yield listening


def _check_grpc_port(settings: Settings) -> None:
    """gRPC listens by itself, later, and says little when it cannot."""
    api = settings.api
    if api.http_port and api.grpc_port:
        _listen_tcp(api.host, api.grpc_port, _GRPC_REMEDY).close()


def _listen_tcp(
    host: str,
    port: int,
    remedy: str = "choose another port with --port (or GPU_SCHEDULER_API_HTTP_PORT)",
) -> socket.socket:
    listening: socket.socket | None = None
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        if listening is not None:
            listening.close()
        raise CannotServe(
            f"cannot listen on {host}:{port}: {error.strerror or error}; {remedy}"
        ) from None
    return listening


def _socket_path(settings: Settings) -> Path | None:
    """With authentication there always is one: over it, its owner makes the first API key."""
    if settings.api.socket is not None or not settings.auth.enabled:
        return settings.api.socket
    return settings.data_directory / "service.sock"


def _serves_everybody(settings: Settings) -> bool:
    """Root can run the jobs of each user as that user, and the kernel says who connects."""
    return settings.auth.enabled and os.geteuid() == 0


def _listen_unix(path: Path, *, for_everybody: bool) -> socket.socket:
    """A socket only this user can open. The data directory's lock says that a leftover is stale."""
    if path.exists() and not path.is_socket():
        raise CannotServe(f"{path} is there and is no socket; choose another with --socket")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o111 if for_everybody else 0o177)
    try:
        path.unlink(missing_ok=True)
        listening.bind(str(path))
    except OSError as error:
        listening.close()
        raise CannotServe(
            f"cannot listen on {path}: {error.strerror or error}; choose another with --socket"
        ) from None
    finally:
        os.umask(before)
    return listening


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _service_file(data_dir: Path) -> Path:
    return data_dir / "service.json"


def _write_service_file(data_dir: Path, listening: Listening) -> None:
    """Tells the command line where the service is."""
    facts = {
        "pid": os.getpid(),
        "socket": None if listening.path is None else str(listening.path),
        "url": listening.url,
        "version": __version__,
        "started_at": WallClock().now(),
    }
    temporary = data_dir / "service.json.new"
    temporary.write_text(json.dumps(facts) + "\n")
    temporary.replace(_service_file(data_dir))
