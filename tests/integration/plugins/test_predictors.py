"""Predictions in a live service, and predictors of another package."""

import pytest

from tests.real_service import Json, RealService, eventually


def predictor(name: str) -> dict[str, dict[str, str]]:
    return {"prediction": {"predictor": name}}


def run_one(service: RealService, job_id: str) -> None:
    service.post("/jobs", {"job_id": job_id, "gpu_count": 1, "name": f"train {job_id[1:]}"})
    service.running(job_id)
    service.post(f"/jobs/{job_id}/complete")
    service.end(job_id)


def test_a_service_predicts_after_a_few_jobs_and_still_after_a_restart(service):
    service.start()
    for number in range(3):
        run_one(service, f"j{number}")
    service.post("/jobs", {"job_id": "next", "gpu_count": 1, "name": "train 77", "hold": True})

    def known() -> Json | None:
        found = service.job("next")["prediction"]
        return found if found and found["samples"] == 3 else None

    found = eventually(known, "the three jobs to be learned")
    assert found["level"] == "name"
    assert 0 <= found["p50_seconds"] <= found["p90_seconds"] < 60
    service.terminate()
    service.start()
    assert eventually(known, "the store to be read")["level"] == "name"


@pytest.mark.parametrize("service", [predictor("one-hour")], indirect=True)
def test_a_predictor_of_another_package_is_asked(service):
    service.start()
    service.post("/jobs", {"job_id": "j", "gpu_count": 1})
    assert service.job("j")["prediction"] == {
        "p50_seconds": 3600.0,
        "p90_seconds": 7200.0,
        "level": "model",
        "samples": 12,
    }


@pytest.mark.parametrize(
    ("service", "trouble"),
    [
        (
            {**predictor("clueless"), "scheduler": {"policy": "shortest"}},
            "predictor clueless: KeyError: 'crystal ball'; time limits take its place",
        ),
        (
            predictor("tarot"),
            "predictor tarot: ValueError: no predictor 'tarot'; there are: history, limit, none, "
            "gbm, clueless, one-hour; time limits take its place",
        ),
    ],
    indirect=["service"],
    ids=["fails", "is missing"],
)
def test_a_predictor_that_cannot_be_used_stops_no_job(service, trouble):
    service.start()
    service.post("/jobs", {"job_id": "j", "gpu_count": 1, "max_runtime": 600})
    service.running("j")
    assert service.job("j")["prediction"]["level"] == "limit"
    assert trouble in service.get("/health")["problems"]
