"""Commands that start and stop the service: serve, start, stop."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tgpu.cli.options import DataDir, Json, examples

SERVE_EPILOG = examples(
    "tgpu serve",
    "tgpu serve --config examples/quickstart.yaml",
    "tgpu serve --port 8081 --gpus sim:8xA100 --data-dir /tmp/demo",
)
START_EPILOG = examples(
    "tgpu start", "tgpu start --config tgpu.yaml", "tgpu start --gpus sim:8xA100"
)
STOP_EPILOG = examples("tgpu stop")


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    CONSOLE = "console"
    JSON = "json"


Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Settings as YAML, JSON or TOML."),
]
Host = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Address to listen on. Default: 127.0.0.1.")
]
Port = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, max=65535, help="TCP port; 0 for none. Default: 8080."),
]
GrpcPort = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, max=65535, help="TCP port of gRPC; 0 for none. Default: 9090."
    ),
]
Socket = Annotated[
    Path | None, typer.Option(metavar="PATH", help="Unix socket to listen on as well.")
]
Gpus = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC", help="auto, nvml, nvidia-smi, or simulated ones such as sim:8xA100."
    ),
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure-listen", help="Listen beyond this machine, without authentication."),
]
Level = Annotated[LogLevel | None, typer.Option(case_sensitive=False, help="Log level.")]
Style = Annotated[LogFormat | None, typer.Option(case_sensitive=False, help="Log format.")]
Screen = Annotated[
    bool, typer.Option("--screen", help="Run every job in a GNU screen session (`tgpu attach`).")
]
Tmux = Annotated[
    bool, typer.Option("--tmux", help="Run every job in a tmux session (`tgpu attach`).")
]


def serve(
    *,
    config: Config = None,
    host: Host = None,
    port: Port = None,
    grpc_port: GrpcPort = None,
    socket: Socket = None,
    data_dir: DataDir = None,
    gpus: Gpus = None,
    insecure_listen: Insecure = False,
    log_level: Level = None,
    log_format: Style = None,
    screen: Screen = False,
    tmux: Tmux = False,
) -> None:
    """Run the scheduler in the foreground; Ctrl-C stops it, running jobs continue."""
    from tgpu.cli.serving.service import run_service

    run_service(
        config,
        {
            "api.host": host,
            "api.http_port": port,
            "api.grpc_port": grpc_port,
            "api.socket": _absolute(socket),
            "api.insecure_listen": insecure_listen or None,
            "data_dir": _absolute(data_dir),
            "devices.gpus": gpus,
            "logging.level": log_level.value.upper() if log_level else None,
            "logging.format": log_format.value if log_format else None,
            "engine.screen": screen or None,
            "engine.tmux": tmux or None,
        },
    )


def start(
    *,
    config: Config = None,
    host: Host = None,
    port: Port = None,
    grpc_port: GrpcPort = None,
    socket: Socket = None,
    data_dir: DataDir = None,
    gpus: Gpus = None,
    insecure_listen: Insecure = False,
    log_level: Level = None,
    log_format: Style = None,
    screen: Screen = False,
    tmux: Tmux = False,
    daemon: Annotated[
        bool, typer.Option("--daemon", help="Run in the background (the default).")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start the scheduler in the background, unless it is already running.

    Without --config, --host or --port it listens on a Unix socket that only you can open.
    """
    from tgpu.cli.serving.service import start_service

    _ = daemon  # people bring it from elsewhere; there is nothing to choose
    options: dict[str, str | Path | int | None] = {
        "--config": _absolute(config),
        "--host": host,
        "--port": port if port is not None or config or host else 0,
        "--grpc-port": grpc_port,
        "--socket": _absolute(socket),
        "--gpus": gpus,
        "--log-level": log_level.value if log_level else None,
        "--log-format": log_format.value if log_format else None,
    }
    words = [
        word for name, value in options.items() if value is not None for word in (name, str(value))
    ]
    words += ["--insecure-listen"] if insecure_listen else []
    words += ["--screen"] if screen else []
    words += ["--tmux"] if tmux else []
    start_service(_absolute(data_dir), words, as_json)


def stop(data_dir: DataDir = None, as_json: Json = False) -> None:
    """Stop your scheduler. Running jobs continue and are picked up at the next start."""
    from tgpu.cli.serving.service import stop_service

    stop_service(_absolute(data_dir), as_json)


def _absolute(path: Path | None) -> Path | None:
    return None if path is None else path.expanduser().absolute()
