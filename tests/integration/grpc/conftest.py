"""A real service with a gRPC port, and real agents, as processes."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.real_service import RealService, clean_environ, eventually, free_port

OFFLINE_SECONDS = 1.5


class GrpcService(RealService):
    """With `grpc_port`, and nodes that are soon missed."""

    def __init__(self, directory: Path) -> None:
        self.grpc_port = free_port()
        super().__init__(
            directory,
            gpus="sim:2xA100",
            settings={
                "api": {"grpc_port": self.grpc_port},
                "agents": {"offline_after_seconds": OFFLINE_SECONDS},
            },
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    def channel(self) -> grpc.Channel:
        return grpc.insecure_channel(self.address, options=(("grpc.enable_http_proxy", 0),))

    def nodes(self) -> dict[str, Any]:
        return {node["name"]: node for node in self.get("/nodes")["nodes"]}

    def node(self, name: str, state: str, seconds: float = 25.0) -> dict[str, Any]:
        """The node, as soon as it is in this state."""

        def probe() -> dict[str, Any] | None:
            found = self.nodes().get(name)
            return found if found is not None and found["state"] == state else None

        return eventually(probe, f"node {name} to be {state}", seconds)


class AgentProcess:
    def __init__(self, address: str, name: str, log: Path, gpus: str) -> None:
        self.name = name
        self.log = log
        command = [sys.executable, "-m", "tgpu", "agent", "--server", address]
        command += ["--name", name, "--gpus", gpus, "--interval", "0.2s", "--log-format", "json"]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, env=clean_environ()
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(15)

    def said(self) -> list[str]:
        """What its log lines are about."""
        return [json.loads(line)["message"] for line in self.log.read_text().splitlines()]


StartAgent = Callable[..., AgentProcess]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[GrpcService]:
    with GrpcService(tmp_path) as made:
        made.start()
        yield made


@pytest.fixture
def start_agent(service: GrpcService, tmp_path: Path) -> Iterator[StartAgent]:
    started: list[AgentProcess] = []

    def start(name: str = "box", gpus: str = "sim:4xH100") -> AgentProcess:
        log = tmp_path / f"agent-{len(started)}.log"
        started.append(AgentProcess(service.address, name, log, gpus))
        return started[-1]

    yield start
    for agent in started:
        agent.kill()
