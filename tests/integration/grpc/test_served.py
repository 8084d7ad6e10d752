"""gRPC of the real service: its port, its life, and the same jobs as over REST."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import grpc
import psutil
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.integration.grpc.conftest import GrpcService
from tests.real_service import RealService, clean_environ, eventually, free_port
from tgpu.wire import scheduler_pb2 as pb
from tgpu.wire import scheduler_pb2_grpc as rpc


def listening_ports(service: RealService) -> set[int]:
    connections = psutil.Process(service.pid).net_connections("tcp")
    return {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}


def test_a_job_runs_that_was_submitted_over_grpc(service):
    with service.channel() as channel:
        scheduler = rpc.SchedulerServiceStub(channel)
        answer = scheduler.SubmitJob(
            pb.SubmitJobRequest(command=["sh", "-c", "exit 3"], working_dir=str(service.work))
        )
        assert service.end(answer.job_id)["exit_code"] == 3
        job = scheduler.GetJobStatus(pb.GetJobStatusRequest(job_id=answer.job_id))
        assert (job.state, job.exit_code) == ("failed", 3)


def test_health_says_when_the_service_is_ready(service):
    with service.channel() as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_watchers_miss_nothing_over_restarts_of_the_service(service: GrpcService):
    """Jobs are submitted all the time; the service is killed and comes back; so do the readers."""
    seen: list[int] = []
    done = threading.Event()

    def watch() -> None:
        position = 0
        while not done.is_set():
            with service.channel() as channel, contextlib.suppress(grpc.RpcError):
                call = rpc.SchedulerServiceStub(channel).WatchEvents(
                    pb.WatchEventsRequest(after=position), timeout=3
                )
                for event in call:
                    seen.append(event.seq)
                    position = event.seq

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(3):
            for _ in range(20):
                service.submit("true")
            service.restart()
        last = service.submit("true")
        service.end(last)
        with service.channel() as channel:
            metrics = rpc.SchedulerServiceStub(channel).GetMetrics(pb.GetMetricsRequest())
        eventually(lambda: seen and seen[-1] >= metrics.last_seq - 1, "all events")
    finally:
        done.set()
        watcher.join(20)
    assert seen == sorted(set(seen))  # none twice, in order
    with service.channel() as channel:
        call = rpc.SchedulerServiceStub(channel).WatchEvents(pb.WatchEventsRequest(after=0))
        recorded = [next(call).seq for _ in seen]
        call.cancel()
    assert seen == recorded  # none missed


def test_the_service_ends_in_time_though_somebody_watches(service):
    with service.channel() as channel:
        call = rpc.SchedulerServiceStub(channel).WatchEvents(pb.WatchEventsRequest(after=0))
        next(call)
        assert service.terminate(seconds=10) == 0


def refused_start(directory: Path, api: dict[str, object]) -> str:
    config = directory / "refused.json"
    config.write_text(json.dumps({"api": {"metrics_port": 0, **api}}))
    command = [sys.executable, "-m", "tgpu", "serve", "--config", str(config)]
    command += ["--data-dir", str(directory / "refused")]
    outcome = subprocess.run(
        command, capture_output=True, text=True, env=clean_environ(), check=False, timeout=60
    )
    assert outcome.returncode == 2
    return outcome.stderr


def test_a_port_that_is_taken_is_refused_with_the_key(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = refused_start(tmp_path, {"http_port": free_port(), "grpc_port": port})
    assert f"cannot listen on 127.0.0.1:{port}" in told
    assert "api.grpc_port" in told
    assert "--grpc-port" in told


def test_one_port_for_two_things_is_refused(tmp_path):
    told = refused_start(tmp_path, {"http_port": 8123, "grpc_port": 8123})
    assert "http_port and grpc_port are both 8123" in told


def test_a_service_on_a_socket_alone_opens_no_port(tmp_path):
    api = {"http_port": 0, "socket": str(tmp_path / "s.sock"), "grpc_port": free_port()}
    with RealService(tmp_path, settings={"api": api}) as service:
        service.launch()
        eventually((tmp_path / "data" / "service.json").exists, "the service to be ready")
        assert listening_ports(service) == set()


def test_port_zero_means_none(tmp_path):
    with RealService(tmp_path, settings={"api": {"grpc_port": 0}}) as service:
        service.start()
        assert listening_ports(service) == {service.port}
