"""`make smoke`: starts the real service as a user would, exercises it over HTTP, stops it.

Not collected by pytest: it proves that the installed command works, from a process outside.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 30
STOP_SECONDS = 15


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="tgpu-smoke-") as directory:
        port = free_port()
        log = Path(directory, "service.log")
        process = start(port, Path(directory, "data"), log)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
                wait_until_healthy(http, process)
                for step in STEPS:
                    step(http)
                    print(f"ok  {step.__name__.replace('_', ' ')}")
            stop(process)
            print("ok  the service stops cleanly")
        except BaseException:
            print(log.read_text(errors="replace"), file=sys.stderr)
            raise
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    print("smoke test passed")
    return 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(port: int, data_dir: Path, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tgpu", "serve"]
    command += ["--config", str(ROOT / "examples" / "quickstart.yaml")]
    command += ["--port", str(port), "--data-dir", str(data_dir)]
    # The settings of whoever runs this must not leak in.
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("GPU_SCHEDULER_", "TGPU_"))}
    environ["GPU_SCHEDULER_API_METRICS_PORT"] = "0"  # another service may have the usual one
    environ["GPU_SCHEDULER_API_GRPC_PORT"] = "0"
    with log.open("wb") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environ
        )


def wait_until_healthy(http: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        if process.poll() is not None:
            raise AssertionError(f"the service ended at once with exit code {process.returncode}")
        try:
            if http.get("/healthz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        if time.monotonic() > deadline:
            raise AssertionError(f"the service was not there after {START_SECONDS} s")
        time.sleep(0.05)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    exit_code = process.wait(STOP_SECONDS)
    expect(exit_code, 0, "exit code after TERM")


def a_job_is_accepted_once(http: httpx.Client) -> None:
    job = {"job_id": "j1", "tenant_id": "t1", "gpu_type": "A100", "gpus": 1, "priority": 5}
    answer = http.post("/jobs", json=job | {"submitted_at": 0})
    expect(answer.status_code, 201, answer.text)
    again = http.post("/jobs", json=job | {"submitted_at": 0})
    expect_error(again, 409, "DUPLICATE_JOB")


def a_tick_starts_what_fits(http: httpx.Client) -> None:
    expect(http.get("/jobs/j1").json()["status"], "WAITING")
    answer = http.post("/schedule", params={"now": 120})
    expect(answer.json(), {"started": ["j1"], "waiting": 0})
    expect(http.get("/jobs/j1").json()["status"], "RUNNING")


def a_running_job_completes_once(http: httpx.Client) -> None:
    expect(http.post("/jobs/j1/complete").json()["status"], "COMPLETED")
    expect_error(http.post("/jobs/j1/complete"), 400, "INVALID_STATE")


def a_batch_is_taken_in_part(http: httpx.Client) -> None:
    good = {"tenant_id": "t1", "gpu_type": "A100", "gpus": 2, "priority": 1, "submitted_at": 0}
    batch = [good | {"job_id": "b1"}, good | {"job_id": "b2"}, good | {"job_id": "b3", "gpus": 0}]
    answer = http.post("/jobs/batch", json=batch).json()
    expect(answer["accepted"], ["b1", "b2"])
    expect([(r["index"], r["job_id"]) for r in answer["rejected"]], [(2, "b3")])
    expect(answer["counts"], {"accepted": 2, "rejected": 1})


def the_quota_of_a_tenant_holds(http: httpx.Client) -> None:
    answer = http.post("/schedule", params={"now": 180}).json()
    expect(answer, {"started": ["b1"], "waiting": 1})


def files_are_ingested(http: httpx.Client) -> None:
    for fmt, ids in (("ndjson", ["n1", "n2", "n3"]), ("csv", ["c1", "c2", "c3"])):
        file = (ROOT / "examples" / f"jobs.{fmt}").read_bytes()
        answer = http.post("/ingest", params={"fmt": fmt}, files={"file": (f"jobs.{fmt}", file)})
        expect(answer.json()["accepted"], ids, answer.text)


def the_statistics_add_up(http: httpx.Client) -> None:
    stats = http.get("/stats").json()
    expect(stats["total_jobs"], 9)
    expect(sum(stats["jobs"].values()), 9)
    expect(stats["capacity"]["total"], {"A100": 4, "H100": 2})
    expect(stats["running"], ["b1"])


def mistakes_are_answered_in_one_shape(http: httpx.Client) -> None:
    expect_error(http.get("/jobs/nobody"), 404, "JOB_NOT_FOUND")
    expect_error(http.post("/schedule"), 422, "VALIDATION_ERROR")
    expect_error(http.post("/jobs", json={"job_id": "x"}), 422, "VALIDATION_ERROR")
    expect_error(http.post("/ingest?fmt=xml", files={"file": b""}), 400, "BAD_FORMAT")
    expect_error(http.get("/no/such/path"), 404, "NOT_FOUND")
    expect_error(http.delete("/stats"), 405, "METHOD_NOT_ALLOWED")


def the_other_api_sees_the_same_jobs(http: httpx.Client) -> None:
    expect(http.get("/api/v1/jobs/b1").json()["state"], "running")
    expect(http.get("/api/v1/health").json()["status"], "healthy")
    status = http.get("/api/v1/cluster/status").json()
    expect((status["total_gpus"], status["simulated"]), (6, True))


STEPS: tuple[Callable[[httpx.Client], None], ...] = (
    a_job_is_accepted_once,
    a_tick_starts_what_fits,
    a_running_job_completes_once,
    a_batch_is_taken_in_part,
    the_quota_of_a_tenant_holds,
    files_are_ingested,
    the_statistics_add_up,
    mistakes_are_answered_in_one_shape,
    the_other_api_sees_the_same_jobs,
)


def expect(got: object, wanted: object, context: str = "") -> None:
    if got != wanted:
        raise AssertionError(f"expected {wanted!r}, got {got!r} {context}")


def expect_error(answer: httpx.Response, status: int, code: str) -> None:
    expect(answer.status_code, status, answer.text)
    error = answer.json()["error"]
    expect(error["code"], code)
    expect(sorted(error), ["code", "details", "message"])


if __name__ == "__main__":
    sys.exit(main())
