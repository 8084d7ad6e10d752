"""BackfillMode around the first job that cannot start: on random worlds, replayed to the end."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.core.check import check_invariants, check_plan
from tgpu.core.cycle import schedule
from tgpu.core.model import lifecycle
from tgpu.core.model.events import JobMoved, JobsSubmitted, NodeSet, TenantSet, TimePassed
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Job, Options, Request, Where
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.node import Gpu, Node
from tgpu.core.model.plan import BackfillReservation, Plan
from tgpu.core.model.rules import BackfillMode, Rules
from tgpu.core.model.tenant import Tenant
from tgpu.core.policies.fifo import Fifo
from tgpu.core.state.cluster_state import State

US = TenantId("us")
seeds = st.integers(0, 2**32)


class Box:
    """Machines on which every job runs as long as it runs, at most as long as it may."""

    def __init__(self, rng: Random, rules: Rules, nodes: int = 2, limited: float = 1.0) -> None:
        self.rng = rng
        self.rules = rules
        self.limited = limited  # the part of the jobs that has a time limit
        self.now = 0
        self.state = State()
        self.state.apply(TenantSet(0, Tenant(US)))
        self.ends: dict[JobId, int] = {}
        self.started: dict[JobId, int] = {}
        self.jobs: dict[JobId, Job] = {}
        self.promised: dict[JobId, int] = {}
        self.promises: tuple[BackfillReservation, ...] = ()
        for number in range(nodes):
            gpus = tuple(Gpu(i, f"{number}-{i}", "A100", 80_000) for i in range(4))
            self.state.apply(NodeSet(0, Node(NodeId(f"n{number}"), gpus, 8000, 4000)))

    def submit(self, count: int) -> None:
        jobs = []
        for _ in range(count):
            limit = self.rng.choice((1000, 2000, 5000, 9000, 20_000))
            workers = self.rng.choice((1, 1, 1, 2, 3))
            request = Request(
                workers
                * self.rng.choice((250, 500, 1000, 1000, 2000, 4000 if workers < 3 else 2000)),
                cpu_millis=workers * self.rng.choice((0, 0, 1000, 4000)),
                workers=workers,
                where=Where(exclusive=self.rng.random() < 0.1),
            )
            is_limited = self.rng.random() < self.limited
            options = Options(time_limit_ms=limit if is_limited else None)
            job_id = JobId(f"j{len(self.jobs):03}")
            job = Job(job_id, US, 500, self.now, request, options=options)
            self.jobs[job_id] = job
            jobs.append(job)
        self.state.apply(JobsSubmitted(self.now, tuple(jobs)))

    def cycle(self) -> Plan:
        self.state.apply(TimePassed(self.now))
        plan = schedule(self.state, self.now, Fifo(), rules=self.rules, promises=self.promises)
        check_plan(self.state, plan)
        self.promises = plan.reservations
        for reservation in plan.reservations:
            # The first word counts.
            self.promised.setdefault(reservation.job_id, reservation.at)
        for start in plan.starts:
            progress = self._progress(start.job_id)
            placed = lifecycle.place(start.job_id, progress, start.placement, self.now)
            self._move(start.job_id, Move.START, placed)
            self.started[start.job_id] = self.now
            limit = self.jobs[start.job_id].options.time_limit_ms
            longest = 5000 if limit is None else limit
            self.ends[start.job_id] = self.now + self.rng.choice((1, longest // 3, longest))
        check_invariants(self.state)
        return plan

    def step(self) -> None:
        """To the next end."""
        if not self.ends:
            return
        self.now = max(self.now, min(self.ends.values()))
        for job_id in sorted(j for j, at in self.ends.items() if at <= self.now):
            del self.ends[job_id]
            over = lifecycle.end(job_id, self._progress(job_id), JobState.COMPLETED, self.now)
            self._move(job_id, Move.COMPLETE, over)

    def _progress(self, job_id: JobId) -> lifecycle.Progress:
        entry = self.state.entry(job_id)
        assert entry is not None
        return entry.progress

    def _move(self, job_id: JobId, move: Move, progress: lifecycle.Progress) -> None:
        self.state.apply(JobMoved(self.now, job_id, move, progress))


@pytest.mark.parametrize("backfill", [BackfillMode.EASY, BackfillMode.CONSERVATIVE])
@given(seed=seeds)
def test_a_reserved_job_starts_by_the_instant_it_was_promised(
    backfill: BackfillMode, seed: int
) -> None:
    # First come, first served: nobody who comes later is before it in the order.
    rng = Random(seed)
    box = Box(rng, Rules(backfill=backfill))
    box.submit(12)
    for round_number in range(60):
        box.cycle()
        if round_number % 4 == 0 and len(box.jobs) < 40:
            box.submit(rng.randint(1, 4))
            box.cycle()
        box.step()
        if not box.ends and box.state.pending_count() == 0:
            break
    for job_id, promised in box.promised.items():
        if job_id in box.started:
            assert box.started[job_id] <= promised


@given(seed=seeds)
def test_everybody_starts_in_the_end(seed: int) -> None:
    rng = Random(seed)
    box = Box(rng, Rules(backfill=rng.choice(list(BackfillMode)), hold_after_ms=3000), limited=0.5)
    box.submit(25)
    for _ in range(200):
        box.cycle()
        if not box.ends:
            break
        box.step()
    assert box.state.pending_count() == 0


@given(seed=seeds)
def test_nobody_is_passed_for_ever_by_jobs_without_a_time_limit(seed: int) -> None:
    """A stream of small jobs cannot starve a large one once it has waited long enough."""
    rng = Random(seed)
    box = Box(rng, Rules(backfill=BackfillMode.EASY, hold_after_ms=3000), nodes=1, limited=0.0)
    box.submit(4)
    box.cycle()
    large = Job(JobId("large"), US, 500, box.now, Request(4000))
    box.jobs[large.job_id] = large
    box.state.apply(JobsSubmitted(box.now, (large,)))
    for number in range(100):
        small = Job(JobId(f"s{number:03}"), US, 500, box.now, Request(1000))
        box.jobs[small.job_id] = small
        box.state.apply(JobsSubmitted(box.now, (small,)))
        box.cycle()
        if large.job_id in box.started:
            return
        box.step()
    raise AssertionError("the large job never started")


@given(seed=seeds)
def test_who_would_start_in_a_strict_line_starts_in_every_other(seed: int) -> None:
    plans = {}
    for backfill in BackfillMode:
        box = Box(Random(seed), Rules(backfill=backfill))
        box.submit(15)
        plans[backfill] = {start.job_id for start in box.cycle().starts}
    assert all(plans[BackfillMode.STRICT] <= started for started in plans.values())
