"""The command `agent`: a GPU machine reports to a service elsewhere."""

import re
import socket
from pathlib import Path
from typing import Annotated

import typer

from tgpu.cli.failures import bad_input
from tgpu.cli.options import examples, read_option
from tgpu.cli.serving.command import Level, Style

EPILOG = examples(
    "tgpu agent --server scheduler:9090",
    "tgpu agent --server 10.0.0.5 --name gpu-box-3 --interval 10s",
    "tgpu agent --server 127.0.0.1:9090 --name demo --gpus sim:8xA100",
)
_PORT = 9090
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+)(?::(?P<port>\d{1,5}))?")


def agent(
    *,
    server: Annotated[
        str, typer.Option(metavar="HOST[:PORT]", help="gRPC address of the scheduler.")
    ],
    name: Annotated[
        str | None, typer.Option(metavar="NODE", help="Name of this node. Default: the host's.")
    ] = None,
    gpus: Annotated[
        str,
        typer.Option(
            metavar="SPEC", help="auto, nvml, nvidia-smi, or simulated ones such as sim:8xA100."
        ),
    ] = "auto",
    interval: Annotated[str, typer.Option(metavar="SPAN", help="Time between two reports.")] = "5s",
    tls: Annotated[
        bool, typer.Option("--tls", help="Use TLS; the scheduler must have a certificate.")
    ] = False,
    ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Certificates (PEM) to trust; implies --tls."),
    ] = None,
    log_level: Level = None,
    log_format: Style = None,
) -> None:
    """Report this machine's GPUs to a scheduler elsewhere, until Ctrl-C.

    `tgpu nodes` then shows the machine and its readings. Jobs do not run on it. It retries while
    the scheduler cannot be reached. If the scheduler requires authentication, put an operator's API
    key in TGPU_API_KEY.
    """
    from tgpu.text.durations import parse_duration

    address = read_option("--server", _address, server)
    seconds = read_option("--interval", parse_duration, interval)
    from tgpu.agent.run import AgentOptions, run
    from tgpu.devices.api import NoDriver
    from tgpu.log import set_up_logging
    from tgpu.settings import LoggingSettings, process_environ

    set_up_logging(
        LoggingSettings.model_validate(
            {
                "level": log_level.value.upper() if log_level else "INFO",
                "format": log_format.value if log_format else "console",
            }
        )
    )
    options = AgentOptions(
        address,
        name or _host_name(),
        gpus,
        seconds,
        api_key=process_environ().get("TGPU_API_KEY") or None,
        tls=tls or ca is not None,
        ca=None if ca is None else ca.read_bytes(),
    )
    try:
        run(options)
    except (NoDriver, ValueError) as error:
        raise bad_input(f"--gpus: {error}") from error


def _address(text: str) -> str:
    found = _SERVER.fullmatch(text.strip())
    port = int(found["port"] or _PORT) if found else 0
    if found is None or not 0 < port < 65_536:
        raise ValueError(f"{text!r} must be HOST or HOST:PORT, such as scheduler:{_PORT}")
    return f"{found['host']}:{port}"


def _host_name() -> str:
    """The host's name, in the letters that a node's name may have."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).lstrip(".-")[:128] or "node"
