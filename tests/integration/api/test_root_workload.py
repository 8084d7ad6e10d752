"""Random work over HTTP, against a second implementation of the rule that shares no code."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integration.api.http import a_plain_job, quickstart

CAPACITY = {"A100": 4, "H100": 2}
QUOTA = {"A100": 2, "H100": 1}


@dataclass
class Oracle:
    """The rule as its description says it, with lists and loops."""

    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    status: dict[str, str] = field(default_factory=dict)

    def submit(self, job: dict[str, Any]) -> int:
        if job["job_id"] in self.jobs:
            return 409
        self.jobs[job["job_id"]] = job
        self.status[job["job_id"]] = "WAITING"
        return 201

    def used(self, gpu_type: str, tenant_id: str | None = None) -> int:
        return sum(
            job["gpus"]
            for job_id, job in self.jobs.items()
            if self.status[job_id] == "RUNNING"
            and job["gpu_type"] == gpu_type
            and tenant_id in (None, job["tenant_id"])
        )

    def tick(self, now: int) -> list[str]:
        started = []
        waiting = [job for job_id, job in self.jobs.items() if self.status[job_id] == "WAITING"]
        waiting.sort(
            key=lambda job: (
                -(job["priority"] + (now - job["submitted_at"]) // 60),
                job["submitted_at"],
                job["job_id"],
            )
        )
        for job in waiting:
            kind = job["gpu_type"]
            fits = self.used(kind) + job["gpus"] <= CAPACITY[kind]
            allowed = self.used(kind, job["tenant_id"]) + job["gpus"] <= QUOTA[kind]
            if fits and allowed:
                self.status[job["job_id"]] = "RUNNING"
                started.append(job["job_id"])
        return started

    def complete(self, job_id: str) -> int:
        if job_id not in self.jobs:
            return 404
        if self.status[job_id] != "RUNNING":
            return 400
        self.status[job_id] = "COMPLETED"
        return 200


names = st.sampled_from([f"j{n}" for n in range(12)])
jobs = st.builds(
    a_plain_job,
    names,
    tenant_id=st.sampled_from(["t1", "t2"]),
    gpu_type=st.sampled_from(["A100", "H100"]),
    gpus=st.integers(1, 3),
    priority=st.integers(-2, 4),
    submitted_at=st.integers(0, 200),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), jobs),
        st.tuples(st.just("tick"), st.integers(0, 400)),
        st.tuples(st.just("complete"), names),
    ),
    min_size=5,
    max_size=40,
)


@settings(max_examples=25)
@given(steps)
async def test_every_answer_is_the_one_of_the_rule(taken: list[tuple[str, Any]]) -> None:
    oracle = Oracle()
    async with quickstart() as api:
        for action, argument in taken:
            if action == "submit":
                answer = await api.post("/jobs", json=argument)
                assert answer.status_code == oracle.submit(argument)
            elif action == "tick":
                answer = await api.post("/schedule", params={"now": argument})
                assert answer.json()["started"] == oracle.tick(argument)
            else:
                answer = await api.post(f"/jobs/{argument}/complete")
                assert answer.status_code == oracle.complete(argument)
        stats = (await api.get("/stats")).json()
        for name in ("WAITING", "RUNNING", "COMPLETED"):
            assert stats["jobs"][name] == list(oracle.status.values()).count(name)
        assert stats["capacity"]["used"] == {kind: oracle.used(kind) for kind in CAPACITY}
        for job_id, status in oracle.status.items():
            assert (await api.get(f"/jobs/{job_id}")).json()["status"] == status
