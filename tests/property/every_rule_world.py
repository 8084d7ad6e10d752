"""A world in which every rule is in force at once: bookings, cohorts, budgets, gangs, preemption.

What the service does with a plan is done by the service's own code."""

from collections.abc import Callable
from random import Random
from typing import Any

from tgpu.core.check import check_invariants
from tgpu.core.cycle import CycleObserver, schedule
from tgpu.core.model import lifecycle
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.events import (
    BookingSet,
    JobMoved,
    JobsSubmitted,
    NodeSet,
    QueueSet,
    TenantSet,
    TimePassed,
)
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Array, Job, Options, Request, Where
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.node import Gpu, Node
from tgpu.core.model.plan import BackfillReservation, Plan
from tgpu.core.model.rules import BackfillMode, PreemptionRules, Rules
from tgpu.core.model.tenant import Budget, OverBudget, Tenant, TenantQueue, Window
from tgpu.core.plan_events import job_preempted, plan_events
from tgpu.core.policies import order_policy
from tgpu.core.reservations.advance_reservations import AdvanceReservationRequest, choose
from tgpu.core.state.cluster_state import Entry, State

TENANTS = (TenantId("red"), TenantId("blue"))
TYPES = ("A100", "H100")
POLICIES = ("fifo", "priority", "fairshare", "shortest")


class EveryRuleWorld:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = 10_000
        self.state = State()
        self.rules = Rules(
            backfill=rng.choice(list(BackfillMode)),
            hold_after_ms=rng.choice((None, None, 3000)),
            preemption=PreemptionRules() if rng.random() < 0.4 else None,
        )
        self.policy = order_policy(rng.choice(POLICIES), 1)
        self.plan = Plan()
        self.count = 0
        self.state.apply(TimePassed(self.now))
        cohort = rng.choice(("", "lab"))
        for tenant_id in TENANTS:
            self.state.apply(TenantSet(0, self._tenant(tenant_id, cohort)))
            self.state.apply(QueueSet(0, self._queue(tenant_id)))
        for number in range(rng.randint(1, 3)):
            self.state.apply(NodeSet(0, self._node(number)))

    def live(self, steps: int = 12) -> "EveryRuleWorld":
        for _ in range(steps):
            self.rng.choice(
                (self.submit, self.submit, self.submit, self.end, self.book, self.wait)
            )()
            self.cycle()
        return self

    # -- what is asked -------------------------------------------------------------------------

    def decide(self, observer: CycleObserver | None = None, state: State | None = None) -> Plan:
        return schedule(
            self.state if state is None else state,
            self.now,
            self.policy,
            rules=self.rules,
            promises=self.promises,
            observer=observer,
        )

    def decider(self, state: State) -> Callable[[CycleObserver | None], Plan]:
        return lambda observer: self.decide(observer, state)

    @property
    def promises(self) -> tuple[BackfillReservation, ...]:
        return self.plan.reservations

    def pending(self) -> list[Entry]:
        found = [e for e in self.state.entries() if e.progress.state is JobState.PENDING]
        return sorted(found, key=lambda entry: entry.job.job_id)

    # -- what happens --------------------------------------------------------------------------

    def cycle(self) -> None:
        self.state.apply(TimePassed(self.now))
        self.plan = self.decide()
        for event in plan_events(self.state, self.plan, self.now):
            self.state.apply(event)
        for entry in self.state.placed():
            if entry.progress.state is JobState.SCHEDULED:
                running = lifecycle.run(entry.job.job_id, entry.progress, self.now, 1)
                self.state.apply(JobMoved(self.now, entry.job.job_id, Move.RUN, running))
        check_invariants(self.state)

    def submit(self) -> None:
        jobs = []
        for _ in range(self.rng.randint(1, 4)):
            self.count += 1
            jobs.append(self._job(JobId(f"j{self.count:03}")))
        self.state.apply(JobsSubmitted(self.now, tuple(jobs)))

    def end(self) -> None:
        placed = self.state.placed()
        for entry in placed[: self.rng.randint(0, 2)]:
            job_id = entry.job.job_id
            if entry.progress.gives_way_to is not None:
                for event in job_preempted(entry.job, entry.progress, self.now, self.now):
                    self.state.apply(event)
                continue
            over = lifecycle.end(job_id, entry.progress, JobState.COMPLETED, self.now)
            self.state.apply(JobMoved(self.now, job_id, Move.COMPLETE, over))

    def wait(self) -> None:
        self.now += self.rng.choice((1, 300, 1500))
        self.state.apply(TimePassed(self.now))

    def book(self) -> None:
        starts_at = self.now + self.rng.choice((0, 500, 2500))
        wish = AdvanceReservationRequest(
            f"r-{len(self.state.ledger.bookings)}-{self.count}",
            self.rng.choice(TENANTS),
            self.rng.randint(1, 2),
            starts_at,
            starts_at + self.rng.choice((1000, 5000)),
            None,
        )
        found = choose(self.state, wish, self.now)
        if isinstance(found, AdvanceReservation):
            self.state.apply(BookingSet(self.now, found))

    # -- what there is ---------------------------------------------------------------------------

    def _pick(self, *values: Any) -> Any:
        return self.rng.choice(values)

    def _node(self, number: int) -> Node:
        gpus = tuple(
            Gpu(
                index,
                f"{number}-{index}",
                TYPES[number % 2],
                self._pick(40_000, 80_000),
                nvlink_group=self._pick(None, 0, 1),
                paused=self._pick(*[None] * 9, "for repair"),
                foreign=self._pick(*[None] * 9, "somebody's"),
            )
            for index in range(self._pick(2, 4, 4))
        )
        labels = (("rack", self._pick("a", "b")),)
        return Node(NodeId(f"n{number}"), gpus, self._pick(4000, 8000), 4000, labels=labels)

    def _tenant(self, tenant_id: TenantId, cohort: str) -> Tenant:
        budget = Budget(self._pick(10**6, 10**9), Window.DAY, OverBudget.HOLD)
        return Tenant(
            tenant_id,
            self._pick(None, 1000, 3000, 6000) if not cohort else self._pick(1000, 3000),
            max_running_jobs=self._pick(None, None, 3),
            cohort=cohort,
            borrow_millis=self._pick(None, 1000),
            lend_millis=self._pick(None, 1000),
            budget=budget if self.rng.random() < 0.2 else None,
        )

    def _queue(self, tenant_id: TenantId) -> TenantQueue:
        cap = self._pick(None, 1, 2)
        return TenantQueue(tenant_id, "night", self._pick(-1, 0, 2), max_running_jobs=cap)

    def _job(self, job_id: JobId) -> Job:
        workers = self._pick(1, 1, 1, 1, 2, 3)
        where = Where(
            gpus=self._pick(*[()] * 8, (0, 1)),
            not_nodes=self._pick(*[()] * 8, ("n0",)),
            labels=self._pick(*[()] * 8, (("rack", "a"),)),
            exclusive=self.rng.random() < 0.1,
            same_island=self.rng.random() < 0.1,
        )
        request = Request(
            workers * self._pick(250, 500, 1000, 1000, 2000, 3000),
            self._pick(None, None, *TYPES),
            workers * self._pick(0, 0, 0, 30_000, 60_000),
            workers * self._pick(0, 0, 1000, 3000),
            workers * self._pick(0, 0, 500, 2000),
            workers,
            where,
        )
        bookings = sorted(self.state.ledger.bookings)
        options = Options(
            time_limit_ms=self._pick(None, 500, 2000, 9000, 9000),
            user=self._pick("", "ann"),
            booking=self._pick(*[None] * 6, *bookings) if workers == 1 else None,
        )
        return Job(
            job_id,
            self.rng.choice(TENANTS),
            self._pick(0, 500, 500, 900),
            self.now - self._pick(0, 0, 4000),
            request,
            queue=self._pick("default", "default", "night"),
            options=options,
            array=Array("x", 0, 2) if self.rng.random() < 0.1 else None,
        )
