"""The data directory is removed under a running service: it acknowledges nothing more, and ends."""

import shutil
from pathlib import Path

import httpx

from tests.real_service import RealService, gate, is_living


def test_it_ends_by_itself_and_leaves_the_new_one_alone(tmp_path: Path) -> None:
    with RealService(tmp_path) as service:
        service.start()
        pid = service.running(service.submit(gate()))["pid"]
        old = service.process
        assert old is not None
        shutil.rmtree(service.data_dir)
        assert old.wait(20) == 70, service.log_text()  # nobody asked it anything
        assert "was removed while it was in use" in service.log_text()
        assert is_living(pid)  # what runs goes on

        service.start()
        assert service.end(service.submit("exit 0"))["state"] == "completed"


def test_nothing_is_acknowledged_that_would_be_lost(tmp_path: Path) -> None:
    with RealService(tmp_path) as service:
        service.start()
        shutil.rmtree(service.data_dir)
        try:
            answer = service.http.post("/api/v1/jobs", json=service.request("exit 0"))
        except httpx.HTTPError:
            return  # it had ended already
        assert answer.status_code == 503, answer.text
