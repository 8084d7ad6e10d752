"""SIGTERM and SIGINT: both end the service in the time it was given, and jobs go on."""

import signal
import socket

import pytest

from tests.integration.crash.conftest import StartService
from tests.real_service import gate


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service_and_not_its_jobs(
    start: StartService, number: signal.Signals
) -> None:
    service = start()
    job_id = service.submit(f"{gate()}; exit 3")
    pid = service.running(job_id)["pid"]
    assert service.process is not None
    service.process.send_signal(number)
    assert service.process.wait(20) == 0
    assert not (service.data_dir / "service.json").exists()
    assert pid in service.processes()
    service.open_gate()
    service.start()
    assert service.end(job_id)["exit_code"] == 3


def test_a_request_that_never_ends_does_not_keep_it(start: StartService) -> None:
    service = start()  # with 2 s for requests under way
    with socket.create_connection(("127.0.0.1", service.port)) as stuck:
        stuck.sendall(b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        assert service.terminate(seconds=20) == 0
