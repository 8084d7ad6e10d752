"""Acquires the data directory and the sockets before a service starts."""

import contextlib
import fcntl
import json
import os
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from tgpu import __version__
from tgpu.app.disk_words import make_start_possible, why_unwritable
from tgpu.app.refusal import CannotServe
from tgpu.connections.listening import bound_socket
from tgpu.service.recording.clock import WallClock
from tgpu.settings import Settings
from tgpu.text.system_words import system_words

_log = structlog.get_logger("gpu_scheduler")

GRPC_REMEDY: Final = (
    "choose another port with --grpc-port (api.grpc_port, GPU_SCHEDULER_API_GRPC_PORT), 0 for none"
)


@dataclass(frozen=True, slots=True)
class Listening:
    """The sockets the service listens on, and what to call them."""

    sockets: list[socket.socket]
    url: str | None
    path: Path | None


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def data_directory(settings: Settings) -> Iterator[Path]:
    """The data directory, ours alone while the service lives."""
    data_dir = settings.data_directory
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.fdopen(_for_the_owner(f"{data_dir}/service.lock", os.O_RDWR | os.O_CREAT), "r+")
    except OSError as error:
        raise CannotServe(
            f"cannot use the data directory {data_dir}: {why_unwritable(data_dir, error)}"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _keeps_nothing(settings):
                # As many as one likes may run beside each other: they have nothing to share.
                with tempfile.TemporaryDirectory(prefix="tgpu-") as scratch:
                    yield Path(scratch)
                return
            raise CannotServe(
                f"a service already runs on {data_dir}; `tgpu stop` ends it, "
                "or choose another directory with --data-dir"
            ) from None
        make_start_possible(data_dir)
        yield data_dir


def _keeps_nothing(settings: Settings) -> bool:
    return settings.database.kind == "memory" and settings.engine.kind == "none"


@contextlib.contextmanager
def listen(settings: Settings) -> Iterator[Listening]:
    sockets: list[socket.socket] = []
    url = None
    path = _socket_path(settings)
    made: tuple[int, int] | None = None
    try:
        if settings.api.http_port:
            sockets.append(_listen_tcp(settings.api.host, settings.api.http_port))
            scheme = "http" if settings.api.tls_cert is None else "https"
            url = f"{scheme}://{_in_url(settings.api.host)}:{settings.api.http_port}"
        if path is not None:
            sockets.append(
                _listen_unix(path, for_everybody=settings.serves_local_users(os.geteuid()))
            )
            made = _file_at(path)
        yield Listening(sockets, url, path)
    finally:
        for open_socket in sockets:
            open_socket.close()
        # The directory may have been removed and another service have its socket there by now.
        if path is not None and made is not None and _file_at(path) == made:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def listen_for_scrapes(settings: Settings) -> Iterator[socket.socket | None]:
    """The metrics port. A service that is reached by its Unix socket alone has none."""
    api = settings.api
    if not (api.http_port and api.metrics_port):
        yield None
        return
    remedy = "set api.metrics_port (GPU_SCHEDULER_API_METRICS_PORT) to another, or to 0 for none"
    try:
        listening = _listen_tcp(api.host, api.metrics_port, remedy)
    except CannotServe as error:
        if "metrics_port" in api.model_fields_set:
            raise
        # A second service on the machine: nobody asked for this very port.
        _log.warning("no metrics port; /metrics on the HTTP port has them too", problem=str(error))
        yield None
        return
    with listening:
        yield listening


def without_taken_grpc_port(settings: Settings) -> Settings:
    """The settings, without gRPC where its port is taken and was not asked for by number.

    gRPC listens by itself, later, and says little when it cannot.
    """
    api = settings.api
    if not (api.http_port and api.grpc_port):
        return settings
    try:
        _listen_tcp(api.host, api.grpc_port, GRPC_REMEDY).close()
    except CannotServe as error:
        if "grpc_port" in api.model_fields_set:
            raise
        _log.warning("no gRPC", problem=str(error))
        return settings.model_copy(update={"api": api.model_copy(update={"grpc_port": 0})})
    return settings


def _listen_tcp(
    host: str,
    port: int,
    remedy: str = "choose another port with --port (or GPU_SCHEDULER_API_HTTP_PORT)",
) -> socket.socket:
    try:
        return bound_socket(host, port)
    except OSError as error:
        raise CannotServe(
            f"cannot listen on {host}:{port}: {system_words(error)}; {remedy}"
        ) from None


def _socket_path(settings: Settings) -> Path | None:
    """With authentication there always is one: over it, its owner makes the first API key."""
    if settings.api.socket is not None or not settings.auth.enabled:
        return settings.api.socket
    return settings.data_directory / "service.sock"


def _listen_unix(path: Path, *, for_everybody: bool) -> socket.socket:
    """A socket only this user can open. The data directory's lock says that a leftover is stale."""
    if path.exists() and not path.is_socket():
        raise CannotServe(f"{path} exists and is not a socket; choose another with --socket")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o111 if for_everybody else 0o177)
    try:
        path.unlink(missing_ok=True)
        listening.bind(str(path))
    except OSError as error:
        listening.close()
        raise CannotServe(
            f"cannot listen on {path}: {system_words(error)}; choose another with --socket"
        ) from None
    finally:
        os.umask(before)
    return listening


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def service_file(data_dir: Path) -> Path:
    return data_dir / "service.json"


def write_service_file(data_dir: Path, listening: Listening) -> None:
    """Tells the command line where the service is."""
    facts = {
        "pid": os.getpid(),
        "socket": None if listening.path is None else str(listening.path),
        "url": listening.url,
        "version": __version__,
        "started_at": WallClock().now(),
    }
    temporary = data_dir / "service.json.new"
    with open(temporary, "w", opener=_for_the_owner) as file:
        file.write(json.dumps(facts) + "\n")
    temporary.replace(service_file(data_dir))


def remove_service_file(data_dir: Path) -> None:
    """Unless it tells of another service: the directory may have been removed and made anew."""
    try:
        told = json.loads(service_file(data_dir).read_text())
    except (OSError, ValueError):
        return
    if isinstance(told, dict) and told.get("pid") == os.getpid():
        service_file(data_dir).unlink(missing_ok=True)
