"""Policies of another package, in a live service."""

import pytest

from tests.real_service import RealService, eventually


def policy(name: str) -> dict[str, dict[str, str]]:
    return {"scheduler": {"policy": name}}


def lease(service: RealService, job_id: str, gpus: int = 2) -> str:
    answer = service.post("/jobs", {"job_id": job_id, "gpu_count": gpus})
    return str(answer["job_id"])


@pytest.mark.parametrize("service", [policy("backwards")], indirect=True)
def test_a_policy_with_select_next_job_alone_orders_the_jobs(service):
    service.start()
    assert service.get("/jobs/scheduler/info")["policy"] == "backwards"
    for job_id in ("first", "second", "third", "fourth"):
        lease(service, job_id)
    service.running("first")  # it was alone when it came
    order = []
    for running in ("first", "fourth", "third", "second"):
        service.running(running)
        order.append(running)
        service.post(f"/jobs/{running}/complete")
    assert order == ["first", "fourth", "third", "second"]


@pytest.mark.parametrize("service", [policy("moody")], indirect=True)
def test_a_policy_that_fails_is_reported_and_the_service_lives_on(service):
    service.start()
    lease(service, "lucky", 1)
    service.running("lucky")
    lease(service, "unlucky", 1)
    health = eventually(lambda: _problems(service), "the problem to be shown")
    assert health == ["scheduling policy moody: ZeroDivisionError: not in the mood; no job starts"]
    lease(service, "patient", 1)
    assert service.post("/jobs/scheduler/trigger")["scheduled_count"] == 0
    assert service.job("patient")["state"] == "pending"
    service.cancel("unlucky")
    service.running("patient")
    eventually(lambda: not _problems(service), "the problem to be gone")
    assert service.log_text().count("the scheduling policy failed") == 1


@pytest.mark.parametrize("service", [policy("moody")], indirect=True)
def test_a_lease_ends_at_its_time_while_the_policy_fails(service):
    service.start()
    service.post("/jobs", {"job_id": "short", "gpu_count": 1, "max_runtime": 3})
    service.running("short")
    lease(service, "unlucky", 1)
    assert service.end("short")["state"] == "completed"


@pytest.mark.parametrize(
    ("service", "sentences"),
    [
        (
            policy("broken"),
            ["scheduling policy 'broken' (third_party_broken:Anything)", "half installed"],
        ),
        (policy("no-policy"), ["is no tgpu.policies.SchedulingPolicy"]),
        (
            policy("nonesuch"),
            ["no scheduling policy 'nonesuch'; there are: priority, fifo, ", "backwards, broken"],
        ),
        ({"quota": {"provider": "lost"}}, ["nobody told me where the quotas are"]),
        (
            {"quota": {"provider": "nonesuch"}},
            ["there are: local, k8s, slurm, failing, lost, one-"],
        ),
        ({"quota": {"provider": "k8s"}}, ["quota provider k8s is not configured"]),
    ],
    indirect=["service"],
)
def test_a_plug_in_that_cannot_be_used_stops_the_start_with_a_sentence(service, sentences):
    assert service.launch().wait(30) == 2
    log = service.log_text()
    assert [sentence for sentence in [*sentences] if sentence not in log] == []
    assert "Traceback" not in log


def _problems(service: RealService) -> list[str]:
    found: list[str] = service.get("/health")["problems"]
    return found
