"""Preemption: on random worlds, carried out to the end."""

from collections import Counter
from itertools import combinations
from random import Random

from hypothesis import event, example, given
from hypothesis import strategies as st

from tgpu.core.admission.admit import refuse
from tgpu.core.capacity.ledger import Trial
from tgpu.core.check import check_invariants, check_plan
from tgpu.core.cycle import schedule
from tgpu.core.model import lifecycle
from tgpu.core.model.events import JobMoved, JobsSubmitted, NodeSet, TenantSet, TimePassed
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Job, Options, Request, Where
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.node import Gpu, Node
from tgpu.core.model.plan import Plan
from tgpu.core.model.rules import PreemptionRules, Rules
from tgpu.core.model.tenant import Tenant
from tgpu.core.placement.place import place
from tgpu.core.policies.priority import PriorityWithAging
from tgpu.core.preemption.preempt import lost_by
from tgpu.core.state.cluster_state import Entry, State

seeds = st.integers(0, 2**32)
RED, BLUE = TenantId("red"), TenantId("blue")
MOST_TIMES = 2


class Arena:
    """Jobs of all priorities; victims are gone one step later."""

    def __init__(self, rng: Random, *, cohort: str = "", **rules: object) -> None:
        self.rng = rng
        self.preemption = PreemptionRules(most_times=MOST_TIMES, **rules)  # type: ignore[arg-type]  # the test knows the fields
        self.now = 1000
        self.state = State()
        # Together as much as there is, or more: then there may be no room within a quota.
        self.quota = rng.choice((4000, 6000)) if cohort else None
        for tenant_id in (RED, BLUE):
            self.state.apply(TenantSet(0, Tenant(tenant_id, self.quota, cohort=cohort)))
        for number in range(2):
            gpus = tuple(Gpu(i, f"{number}-{i}", "A100", 80_000) for i in range(4))
            self.state.apply(NodeSet(0, Node(NodeId(f"n{number}"), gpus, 8000, 4000)))
        self.evicted_for: dict[JobId, set[JobId]] = {}
        self.starts: Counter[JobId] = Counter()
        self.count = 0

    def submit(self, count: int, priority: int | None = None) -> None:
        jobs = []
        for _ in range(count):
            self.count += 1
            request = Request(
                self.rng.choice((250, 500, 1000, 1000, 2000, 4000)),
                cpu_millis=self.rng.choice((0, 0, 0, 2000)),
                where=Where(exclusive=self.rng.random() < 0.1),
            )
            options = Options(
                time_limit_ms=self.rng.choice((None, 5000, 50_000)),
                preemptible=self.rng.random() < 0.9,
            )
            tenant = self.rng.choice((RED, BLUE))
            importance = self.rng.choice((100, 100, 500, 900)) if priority is None else priority
            job_id = JobId(f"j{self.count:03}")
            jobs.append(Job(job_id, tenant, importance, self.now, request, options=options))
        self.state.apply(JobsSubmitted(self.now, tuple(jobs)))

    def plan(self) -> Plan:
        self.state.apply(TimePassed(self.now))
        rules = Rules(preemption=self.preemption)
        return schedule(self.state, self.now, PriorityWithAging(), rules=rules)

    def carry_out(self, plan: Plan) -> None:
        check_plan(self.state, plan)
        for preemption in plan.preemptions:
            progress = self.entry(preemption.victim).progress
            asked = lifecycle.ask_preemption(preemption.victim, progress, preemption.to, "why")
            self.move(preemption.victim, Move.STOP, asked)
            self.evicted_for.setdefault(preemption.to, set()).add(preemption.victim)
        for claim in plan.nominations:
            promised = lifecycle.nominate(
                claim.job_id, self.entry(claim.job_id).progress, claim.placement
            )
            self.move(claim.job_id, Move.NOMINATE, promised)
        for start in plan.starts:
            progress = self.entry(start.job_id).progress
            placed = lifecycle.place(start.job_id, progress, start.placement, self.now)
            self.move(start.job_id, Move.START, placed)
            running = lifecycle.run(start.job_id, placed, self.now, pid=1)
            self.move(start.job_id, Move.RUN, running)
            self.starts[start.job_id] += 1
        check_invariants(self.state)

    def limit(self, cohort: str) -> None:
        """Tenants may have less than there is, each of its own kind."""
        for tenant_id in (RED, BLUE):
            limited = Tenant(
                tenant_id,
                self.rng.choice((None, 2000, 3000, 4000)),
                max_cpu_millis=self.rng.choice((None, None, 4000)),
                max_running_jobs=self.rng.choice((None, None, 3)),
                cohort=cohort,
                lend_millis=self.rng.choice((None, 1000)),
            )
            self.state.apply(TenantSet(self.now, limited))

    def let_them_go(self, share: float = 1.0) -> None:
        """Those who were asked are gone, one by one, and wait again; or about a share of them."""
        for entry in self.state.placed():
            job_id, progress = entry.job.job_id, entry.progress
            if progress.gives_way_to is not None and self.rng.random() < share:
                gone = lifecycle.preempt(job_id, progress, self.now, entry.job.request.gpu_millis)
                self.move(job_id, Move.PREEMPT, gone)
                again = lifecycle.requeue(job_id, gone, self.now, "preempted", counts=False)
                self.move(job_id, Move.REQUEUE, again)

    def plan_with_newcomers(self) -> Plan:
        """Some jobs are over, others come."""
        if self.rng.random() < 0.2:
            self.end_some()
        self.submit(self.rng.randint(0, 3))
        self.now += self.rng.choice((100, 1000, 7000))
        return self.plan()

    def nominated(self) -> set[JobId]:
        return {entry.job.job_id for entry in self.state.nominated()}

    def is_anybody_leaving(self) -> bool:
        return any(entry.progress.gives_way_to is not None for entry in self.state.placed())

    def end_some(self) -> None:
        for entry in self.state.placed():
            if self.rng.random() < 0.3 and entry.progress.gives_way_to is None:
                job_id = entry.job.job_id
                over = lifecycle.end(job_id, entry.progress, JobState.COMPLETED, self.now)
                self.move(job_id, Move.COMPLETE, over)

    def entry(self, job_id: JobId) -> Entry:
        entry = self.state.entry(job_id)
        assert entry is not None
        return entry

    def move(self, job_id: JobId, move: Move, progress: lifecycle.Progress) -> None:
        self.state.apply(JobMoved(self.now, job_id, move, progress))


def a_lived_in_arena(rng: Random, **rules: object) -> Arena:
    arena = Arena(rng, **rules)  # type: ignore[arg-type]  # as above
    for _ in range(6):
        arena.submit(rng.randint(1, 5))
        arena.carry_out(arena.plan())
        arena.now += rng.choice((100, 1000, 7000))
        arena.let_them_go()
        if rng.random() < 0.5:
            arena.end_some()
    return arena


@given(seed=seeds)
@example(5256000)  # two are nominated, and the older could start on what is cleared for the other
def test_no_job_is_preempted_without_a_start(seed: int) -> None:
    rng = Random(seed)
    arena = a_lived_in_arena(rng, cohort=rng.choice(("", "us")))
    for _ in range(4):
        plan = arena.plan()
        arena.carry_out(plan)
        arena.submit(2)  # newcomers, important ones too, must not take what is being cleared
        waiting = {claim.job_id for claim in plan.nominations}
        arena.now += 100
        arena.carry_out(arena.plan())
        arena.let_them_go()
        after = arena.plan()
        assert waiting <= {start.job_id for start in after.starts}
        arena.carry_out(after)


@given(seed=seeds)
def test_nothing_comes_between_a_nomination_and_the_start(seed: int) -> None:
    """However those who are preempted leave, and however little tenants may have: nobody takes
    GPUs or quota of who is nominated, so no more jobs are preempted for it."""
    rng = Random(seed)
    arena = Arena(rng)
    if rng.random() < 0.7:
        arena.limit(rng.choice(("", "us")))
    for _ in range(20):
        plan = arena.plan_with_newcomers()
        assert not arena.nominated() & {preemption.to for preemption in plan.preemptions}
        if not arena.is_anybody_leaving():
            assert arena.nominated() <= {start.job_id for start in plan.starts}
        arena.carry_out(plan)
        arena.let_them_go(0.5)


@given(seed=seeds)
def test_only_less_important_jobs_or_borrowers_are_asked(seed: int) -> None:
    rng = Random(seed)
    arena = a_lived_in_arena(rng, cohort=rng.choice(("", "us")), min_run_ms=500, spare_ms=1000)
    arena.carry_out(arena.plan())
    arena.now += 2000
    arena.let_them_go()
    arena.submit(8)  # with nobody new hardly anybody would be asked
    plan = arena.plan()
    for preemption in plan.preemptions:
        victim, winner = arena.entry(preemption.victim), arena.entry(preemption.to)
        assert victim.job.options.preemptible
        assert victim.progress.preemptions < MOST_TIMES
        assert arena.now - (victim.progress.started_at or 0) >= 500
        limit = victim.job.options.time_limit_ms
        if limit is not None:
            assert (victim.progress.started_at or 0) + limit - arena.now > 1000
        if preemption.cause == "priority":
            assert victim.job.priority < winner.job.priority
        else:
            assert victim.job.tenant_id != winner.job.tenant_id
            assert arena.quota is not None
            assert arena.state.ledger.tenant(victim.job.tenant_id).gpu_millis > arena.quota


@given(seed=seeds)
def test_there_is_no_ping_pong(seed: int) -> None:
    """With nobody new and nobody ending, preemption comes to an end."""
    rng = Random(seed)
    arena = a_lived_in_arena(rng, cohort=rng.choice(("", "us")))
    total = 0
    for _ in range(40):
        plan = arena.plan()
        arena.carry_out(plan)
        total += len(plan.preemptions)
        if not plan:
            break
        arena.now += 70_000  # they age: that alone must not turn anything round
        arena.let_them_go()
    assert not arena.plan()
    for entry in arena.state.entries():
        assert entry.progress.preemptions <= MOST_TIMES


@given(seed=seeds)
def test_the_victims_lose_the_least(seed: int) -> None:
    """Compared with every set of those who may be asked, for the first job that asks."""
    arena = a_lived_in_arena(Random(seed))
    while plan := arena.plan():
        arena.carry_out(plan)
        arena.let_them_go()
    arena.submit(1, priority=5000)
    plan = arena.plan()
    if not plan.nominations:
        event("nobody is asked")
        return
    event("somebody is asked")
    winner = arena.entry(plan.nominations[0].job_id)
    chosen = [p for p in plan.preemptions if p.to == winner.job.job_id]
    able = [
        entry
        for entry in arena.state.placed()
        if entry.job.priority < winner.job.priority
        and entry.job.options.preemptible
        and entry.progress.preemptions < MOST_TIMES
        and not is_time_up(entry, arena.now)
    ]
    sets = [some for size in range(min(4, len(able)) + 1) for some in combinations(able, size)]
    costs = [sum(lost_by(e, arena.now) for e in some) for some in sets if lets(arena, winner, some)]
    if costs:  # sets of more than four are not tried here
        assert sum(p.lost_gpu_millis_ms for p in chosen) <= min(costs)


def is_time_up(entry: Entry, now: int) -> bool:
    """Whether its limit ends it anyhow."""
    limit, started_at = entry.job.options.time_limit_ms, entry.progress.started_at
    return limit is not None and started_at is not None and started_at + limit <= now


def lets(arena: Arena, winner: Entry, victims: tuple[Entry, ...]) -> bool:
    with Trial(arena.state.ledger) as trial:
        for entry in victims:
            assert entry.progress.placement is not None
            trial.give(entry.job, entry.progress.placement)
        if refuse(trial.ledger, winner.queue.job_class) is not None:
            return False
        return place(trial.ledger, winner.queue.job_class) is not None
