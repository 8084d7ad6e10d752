"""The plain quota-aware rule, written a second time from its description alone.

Capacity per GPU type, quota per tenant and type, higher `priority + waited // 60` first, then
earlier submission, then smaller id; whatever fits starts.
"""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import (
    a_gpu,
    a_job,
    a_node,
    a_state,
    a_tenant,
    carry_out,
    end,
    started,
    submit,
)
from tgpu.core.cycle import schedule
from tgpu.core.model.events import TimePassed
from tgpu.core.model.units import SECOND
from tgpu.core.policies import order_policy

AGING_SECONDS = 60
CAPACITY = {"A100": 4, "H100": 2}
QUOTAS = {"t1": {"A100": 2, "H100": 1}, "t2": {"A100": 3, "H100": 2}}


@dataclass
class PlainJob:
    job_id: str
    tenant_id: str
    gpu_type: str
    gpus: int
    priority: int
    submitted_at: int


class PlainScheduler:
    def __init__(self) -> None:
        self.waiting: list[PlainJob] = []
        self.running: list[PlainJob] = []

    def tick(self, now: int) -> list[str]:
        def rank(job: PlainJob) -> tuple[int, int, str]:
            effective = job.priority + (now - job.submitted_at) // AGING_SECONDS
            return (-effective, job.submitted_at, job.job_id)

        chosen = []
        for job in sorted(self.waiting, key=rank):
            same = [other for other in self.running if other.gpu_type == job.gpu_type]
            used = sum(other.gpus for other in same)
            own = sum(other.gpus for other in same if other.tenant_id == job.tenant_id)
            if used + job.gpus > CAPACITY[job.gpu_type]:
                continue
            if own + job.gpus > QUOTAS[job.tenant_id][job.gpu_type]:
                continue
            self.waiting.remove(job)
            self.running.append(job)
            chosen.append(job.job_id)
        return chosen

    def complete(self, job_id: str) -> None:
        self.running = [job for job in self.running if job.job_id != job_id]


plain_jobs = st.builds(
    PlainJob,
    job_id=st.just(""),
    tenant_id=st.sampled_from(sorted(QUOTAS)),
    gpu_type=st.sampled_from(sorted(CAPACITY)),
    gpus=st.integers(1, 3),
    priority=st.integers(-2, 9),
    submitted_at=st.integers(-100, 700),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), plain_jobs),
        st.tuples(st.just("tick"), st.integers(0, 900)),
        st.tuples(st.just("complete"), st.integers(0, 5)),
    ),
    min_size=5,
    max_size=60,
)


@given(steps=steps)
@settings(max_examples=200)
def test_the_core_starts_the_same_jobs_in_the_same_order(steps: list) -> None:
    plain = PlainScheduler()
    gpus = [a_gpu(i, "A100" if i < 4 else "H100") for i in range(6)]
    tenants = [a_tenant(name, by_type=quota) for name, quota in QUOTAS.items()]
    state = a_state(nodes=[a_node(gpus=gpus)], tenants=tenants)
    policy = order_policy("priority", AGING_SECONDS)
    for number, (what, value) in enumerate(steps):
        if what == "submit":
            # The ids run against the order of arrival, so that ties show.
            value.job_id = f"j{999 - number}"
            plain.waiting.append(value)
            job = a_job(
                value.job_id,
                value.tenant_id,
                value.gpus,
                value.gpu_type,
                value.priority,
                value.submitted_at * SECOND,
            )
            submit(state, job)
        elif what == "tick":
            state.apply(TimePassed(value * SECOND))
            plan = schedule(state, value * SECOND, policy)
            assert started(plan) == plain.tick(value)
            carry_out(state, plan, value * SECOND)
        elif plain.running:
            job_id = plain.running[value % len(plain.running)].job_id
            plain.complete(job_id)
            end(state, job_id)
