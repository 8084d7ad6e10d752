"""Metrics and logs of a real service."""

import json
import socket
import subprocess
import sys

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.telemetry.conftest import Watched
from tests.real_service import START_SECONDS, clean_environ, eventually, free_port


def value(text: str, name: str, **labels: str) -> float:
    (found,) = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return found


def test_the_metrics_port_counts_what_the_jobs_did(watched: Watched) -> None:
    text = watched.scrape()
    assert value(text, "gpu_scheduler_jobs_total", state="completed") == 1
    assert value(text, "gpu_scheduler_jobs_total", state="failed") == 1
    assert value(text, "gpu_scheduler_starts_total") == 2
    assert value(text, "gpu_scheduler_job_wait_seconds_count") == 2
    assert value(text, "gpu_scheduler_tenant_gpu_seconds_total", tenant="default") > 0
    assert value(text, "gpu_scheduler_scheduling_latency_count") >= 2
    assert value(text, "gpu_scheduler_commit_failures_total") == 0
    assert value(text, "gpu_scheduler_seconds_since_last_full_cycle") < 60


def test_the_http_port_shows_the_same_metrics(watched: Watched) -> None:
    def names(text: str) -> set[str]:
        return {family.name for family in text_string_to_metric_families(text)}

    assert names(watched.service.http.get("/metrics").text) == names(watched.scrape())


def test_a_scrape_through_the_unix_socket_works_without_a_metrics_port(tmp_path) -> None:
    path = tmp_path / "s"
    command = [sys.executable, "-m", "tgpu", "serve", "--port", "0", "--gpus", "sim:1xT4"]
    command += ["--socket", str(path), "--data-dir", str(tmp_path / "data")]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]  # opening it would fail: it is not even tried
        environ = clean_environ() | {
            "GPU_SCHEDULER_API_METRICS_PORT": str(port),
            "GPU_SCHEDULER_ENGINE_KIND": "none",
        }
        process = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)
        try:
            text = _scrape_socket(process, str(path))
        finally:
            process.terminate()
            process.wait(20)
    assert "gpu_scheduler_uptime_seconds " in text


def _scrape_socket(process: subprocess.Popen[bytes], path: str) -> str:
    def listens() -> bool:
        assert process.poll() is None, "it ended instead"
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(path) == 0

    eventually(listens, "the service to listen", START_SECONDS)
    with httpx.Client(transport=httpx.HTTPTransport(uds=path)) as http:
        return http.get("http://service/metrics").text


def test_a_metrics_port_that_is_taken_is_refused_by_the_name_of_its_key(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        environ = clean_environ() | {
            "GPU_SCHEDULER_API_METRICS_PORT": str(taken.getsockname()[1]),
        }
        command = [sys.executable, "-m", "tgpu", "serve", "--gpus", "sim:1xT4"]
        command += ["--port", str(free_port()), "--data-dir", str(tmp_path / "data")]
        refused = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2
    assert "api.metrics_port" in refused.stderr


def lines(watched: Watched) -> list[dict[str, object]]:
    return [json.loads(line) for line in watched.service.log_text().splitlines()]


def test_every_line_of_the_log_is_json_with_the_fields_that_all_have(watched: Watched) -> None:
    assert lines(watched)
    for line in lines(watched):
        assert [*line][:4] == ["timestamp", "level", "logger", "message"]


def test_the_story_of_a_job_can_be_read_in_the_log(watched: Watched) -> None:
    story = [line for line in lines(watched) if line.get("job_id") == "2"]
    assert [line["message"] for line in story if line["level"] == "INFO"] == [
        "job submitted",
        "job started",
        "job ended",
    ]
    assert {line["tenant"] for line in story} == {"default"}
    assert story[-1]["exit_code"] == 3


def test_the_id_of_a_request_leads_to_the_job_it_submitted(watched: Watched) -> None:
    service = watched.service
    body = service.request("true", job_id="traced")
    answer = service.http.post("/api/v1/jobs", json=body, headers={"X-Request-ID": "find-me"})
    assert answer.headers["x-request-id"] == "find-me"

    def found(message: str) -> dict[str, object] | None:
        for line in lines(watched):
            if line.get("request_id") == "find-me" and line["message"] == message:
                return line
        return None

    assert (found("job submitted") or {})["job_id"] == "traced"
    # It is written once the answer is out.
    request = eventually(lambda: found("request"), "the line of the request")
    assert (request["path"], request["status"]) == ("/api/v1/jobs", 201)
    service.end("traced")
