"""A state that lives through random events, and beside it the plain facts the oracle reads."""

import hashlib
import sys
from dataclasses import replace
from random import Random

from msgspec import structs

from tests.property.oracle import AGING_STEP, HALF_LIFE_MS, SHORTEST_BOUND_MS, Facts
from tgpu.core.accounting.meter import Meters
from tgpu.core.cycle import schedule
from tgpu.core.model import lifecycle
from tgpu.core.model.events import (
    Event,
    JobChanged,
    JobMoved,
    JobsSubmitted,
    NodeSet,
    QueueRemoved,
    QueueSet,
    TenantSet,
    TimePassed,
)
from tgpu.core.model.heat import Heat
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Array, Dependency, DependencyKind, Job, Options, Request, Where
from tgpu.core.model.lifecycle import PLACED, TERMINAL, JobState, Move, Progress
from tgpu.core.model.node import Gpu, GpuName, Node
from tgpu.core.model.plan import Plan
from tgpu.core.model.tenant import NO_USER_LIMITS, Tenant, TenantQueue, UserLimits
from tgpu.core.policies import OrderOptions, order_policy
from tgpu.core.state.cluster_state import State

AGING_SECONDS = 1
TENANTS = (TenantId("red"), TenantId("blue"))
TYPES = ("A100", "H100")
QUEUES = ("default", "night")
USERS = ("", "ann", "bob")
OPTIONS = OrderOptions(aging_step=AGING_STEP, shortest_bound_seconds=SHORTEST_BOUND_MS // 1000)


def a_random_node(rng: Random, node_id: str) -> Node:
    gpus = [
        Gpu(
            index,
            f"{node_id}-{index}",
            rng.choice(TYPES),
            rng.choice((40_000, 80_000)),
            nvlink_group=rng.choice((None, 0, 1)),
        )
        for index in range(rng.choice((0, 2, 4, 4, 6)))
    ]
    return Node(NodeId(node_id), tuple(gpus), rng.choice((2, 8)) * 1000, rng.choice((500, 5000)))


def a_random_tenant(rng: Random, tenant_id: TenantId) -> Tenant:
    def limit(*values: int) -> int | None:
        return rng.choice(values) if rng.random() < 0.15 else None

    by_type = [(name, limit(0, 500, 1000, 3000)) for name in TYPES]
    return Tenant(
        tenant_id,
        limit(0, 1000, 2500, 4000),
        tuple((name, millis) for name, millis in by_type if millis is not None),
        limit(0, 40_000, 90_000),
        limit(0, 2000, 4000),
        limit(0, 600, 2000),
        limit(0, 1, 2),
        weight_millis=rng.choice((1000, 1000, 500, 3000)),
        active=rng.random() < 0.95,
        enforce_quota=rng.random() < 0.8,
        user_limits=some_user_limits(rng) if rng.random() < 0.2 else NO_USER_LIMITS,
        limits_by_user=(("ann", some_user_limits(rng)),) if rng.random() < 0.2 else (),
    )


def some_user_limits(rng: Random) -> UserLimits:
    return UserLimits(rng.choice((None, 500, 1000, 2500)), rng.choice((None, None, 0, 1, 2)))


def perhaps_in_a_cohort(rng: Random, tenant: Tenant) -> Tenant:
    """Most that are in one have a quota: without it nothing is shared."""
    if rng.random() < 0.6:
        return tenant
    quota = rng.choice((0, 1000, 2500, 4000)) if rng.random() < 0.8 else tenant.max_gpu_millis
    return replace(
        tenant,
        max_gpu_millis=quota,
        cohort=rng.choice(("lab", "lab", "lab", "other")),
        borrow_millis=rng.choice((None, None, 0, 500, 2000)),
        lend_millis=rng.choice((None, None, 0, 500, 2000, 9000)),
    )


def a_random_queue(rng: Random) -> TenantQueue:
    return TenantQueue(
        rng.choice(TENANTS),
        rng.choice(QUEUES),
        priority=rng.choice((-1, 0, 0, 3)),
        max_running_jobs=rng.choice((None, None, 0, 1, 3)),
        enabled=rng.random() < 0.9,
        wait_target_ms=rng.choice((None, None, 0, 1000, 6000)),
    )


def a_random_request(rng: Random) -> Request:
    workers = rng.choice((2, 2, 3)) if rng.random() < 0.15 else 1
    return Request(
        rng.choice((100, 250, 500, 500, 1000, 1000, 1000, 1500, 2000, 3000)) * workers,
        rng.choice((None, *TYPES, *TYPES, "T4") if rng.random() < 0.2 else (None, *TYPES)),
        rng.choice((0, 0, 0, 20_000, 50_000, 100_000)),
        rng.choice((0, 0, 0, 1000, 2000)) * workers,
        rng.choice((0, 0, 0, 100, 400)) * workers,
        workers,
        a_random_where(rng),
    )


def a_random_where(rng: Random) -> Where:
    named = (GpuName(NodeId("n0"), 1), GpuName(NodeId("n1"), 0), GpuName(NodeId("n1"), 2))
    picked = rng.choice(((0,), (0, 1), (1, 2, 3), named))
    where = Where(gpus=picked if rng.random() < 0.15 else ())
    if rng.random() < 0.8:
        return where
    change = rng.choice(
        (
            {"exclusive": True},
            {"same_island": True},
            {"spread": True},
            {"gpu_types": ("H100", "A100")},
            {"gpu_mem_each_mib": 60_000},
            {"not_gpus": (0,)},
            {"nodes": ("n1",)},
            {"not_nodes": ("n0",)},
        )
    )
    return replace(where, **change)


class World:
    def __init__(self, rng: Random, policy: str = "priority") -> None:
        self.state = State()
        self.facts = Facts()
        self.events: list[Event] = []
        self.policy_name = policy
        self.state.meters = Meters(HALF_LIFE_MS)
        self.policy = order_policy(policy, AGING_SECONDS, OPTIONS)
        self.now = rng.choice((0, 10_000))
        for tenant_id in TENANTS:
            tenant = perhaps_in_a_cohort(rng, a_random_tenant(rng, tenant_id))
            self.apply(TenantSet(0, tenant))
        for node_id in ("n0", "n1")[: rng.randint(1, 2)]:
            self.apply(NodeSet(0, a_random_node(rng, node_id)))

    def apply(self, event: Event) -> None:
        self.state.apply(event)
        self.events.append(event)
        match event:
            case JobsSubmitted():
                for job in event.jobs:
                    self.facts.jobs[job.job_id] = job
                    self.facts.progress[job.job_id] = Progress(held=job.job_id in event.held)
            case JobMoved():
                self._count_held(event)
                self.facts.progress[event.job_id] = event.progress
                if event.progress.state in TERMINAL:
                    self.facts.ended.append(event.job_id)
            case JobChanged(_, job):
                self.facts.jobs[job.job_id] = job
            case TenantSet():
                self.facts.tenants[event.tenant.tenant_id] = event.tenant
            case QueueSet():
                self.facts.queues[event.queue.tenant_id, event.queue.name] = event.queue
            case QueueRemoved():
                self.facts.queues.pop((event.tenant_id, event.name), None)
            case NodeSet():
                self.facts.nodes[event.node.node_id] = event.node
            case TimePassed():
                self.facts.clock = max(self.facts.clock, event.at)

    def _count_held(self, event: JobMoved) -> None:
        job, before = self.facts.jobs[event.job_id], self.facts.progress[event.job_id]
        gets = (event.progress.state in PLACED) - (before.state in PLACED)
        if gets:
            by = gets * job.request.gpu_millis
            self.facts.held.append((event.at, job.tenant_id, job.options.user, by))

    # -- what people do ----------------------------------------------------------------------

    def submit(self, rng: Random) -> None:
        jobs: list[Job] = []
        for _ in range(rng.randint(1, 4)):
            # Ids that do not come in the order of arrival, so that ties are told apart by id.
            number = len(self.facts.jobs) + len(jobs)
            job_id = JobId(f"{rng.choice('abc')}{number}")
            jobs.append(self.a_job(rng, job_id, jobs))
        held = frozenset(job.job_id for job in jobs if rng.random() < 0.1)
        self.apply(JobsSubmitted(self.now, tuple(jobs), held))

    def a_job(self, rng: Random, job_id: JobId, siblings: list[Job]) -> Job:
        when = self.now + rng.choice((0, 0, 0, -1, -700, -5000, 900, 4000, -self.now - 3000))
        array = None
        if rng.random() < 0.3:
            name = rng.choice(("x", "y"))
            array = Array(name, 0, {"x": 1, "y": 2}[name] if rng.random() < 0.9 else None)
        lease = rng.random() < 0.2
        options = Options(
            time_limit_ms=rng.choice((None, 500, 3000)) if lease or rng.random() < 0.3 else None,
            lease=lease,
            user=rng.choice(USERS),
            deadline_at=when + rng.choice((-500, 1000, 5000)) if rng.random() < 0.2 else None,
        )
        return Job(
            job_id,
            rng.choice(TENANTS),
            rng.choice((-1, 0, 0, 1, 2, 5)),
            when,
            a_random_request(rng),
            queue=rng.choice(QUEUES),
            options=options,
            after=self._dependencies(rng, siblings),
            array=array,
        )

    def _dependencies(self, rng: Random, siblings: list[Job]) -> tuple[Dependency, ...]:
        others = [*self.facts.jobs, *(job.job_id for job in siblings)]
        if not others or rng.random() < 0.85:
            return ()
        chosen = [(rng.choice(others), rng.choice(list(DependencyKind))) for _ in range(2)]
        return tuple(
            Dependency(other, kind)
            for other, kind in chosen[: rng.randint(1, 2)]
            # A submission that can never be met is refused before it comes here.
            if kind is DependencyKind.ANY
            or other not in self.facts.ended
            or self.facts.progress[other].state is JobState.COMPLETED
        )

    def hold(self, rng: Random) -> None:
        for job_id, progress in self._one(rng, JobState.PENDING):
            held = not progress.held
            move = Move.HOLD if held else Move.RELEASE
            self.move(job_id, move, lifecycle.hold(job_id, progress, held))

    def rerank(self, rng: Random) -> None:
        for job_id, _ in self._one(rng, JobState.PENDING):
            job = replace(self.facts.jobs[job_id], priority=rng.choice((-1, 0, 1, 2, 5)))
            self.apply(JobChanged(self.now, job))

    def edit(self, rng: Random) -> None:
        """Another size, and other jobs to wait for: earlier ones, so that there is no circle."""
        for job_id, progress in self._one(rng, JobState.PENDING):
            if progress.claim is not None:
                continue
            job = self.facts.jobs[job_id]
            earlier = [*self.facts.jobs]
            earlier = earlier[: earlier.index(job_id)]
            after = job.after if rng.random() < 0.5 else ()
            if earlier and rng.random() < 0.5:
                after = (Dependency(rng.choice(earlier), DependencyKind.ANY),)
            millis = rng.choice((500, 1000, 2000)) * job.request.workers
            request = replace(job.request, gpu_millis=millis, gpu_mem_mib=0)
            self.apply(JobChanged(self.now, replace(job, request=request, after=after)))

    def cancel(self, rng: Random) -> None:
        live = (JobState.PENDING, JobState.SCHEDULED, JobState.RUNNING, JobState.PREEMPTED)
        for job_id, progress in self._one(rng, *live):
            ended = lifecycle.end(job_id, progress, JobState.CANCELLED, self.now)
            self.move(job_id, Move.CANCEL, ended)

    def set_tenant(self, rng: Random) -> None:
        tenant = perhaps_in_a_cohort(rng, a_random_tenant(rng, rng.choice(TENANTS)))
        self.apply(TenantSet(self.now, tenant))

    def set_queue(self, rng: Random) -> None:
        """Also one with jobs in it, waiting or running."""
        queue = a_random_queue(rng)
        if rng.random() < 0.3:
            self.apply(QueueRemoved(self.now, queue.tenant_id, queue.name))
        else:
            self.apply(QueueSet(self.now, queue))

    # -- what the world does -----------------------------------------------------------------

    def run(self, rng: Random) -> None:
        for job_id, progress in self._one(rng, JobState.SCHEDULED):
            self.move(job_id, Move.RUN, lifecycle.run(job_id, progress, self.now, 1))

    def end(self, rng: Random) -> None:
        for job_id, progress in self._one(rng, JobState.SCHEDULED, JobState.RUNNING):
            to, move = rng.choice(
                ((JobState.COMPLETED, Move.COMPLETE), (JobState.FAILED, Move.FAIL))
            )
            self.move(job_id, move, lifecycle.end(job_id, progress, to, self.now))

    def requeue(self, rng: Random) -> None:
        placed = (JobState.SCHEDULED, JobState.RUNNING, JobState.PREEMPTED)
        for job_id, progress in self._one(rng, *placed):
            wake_at = self.now + rng.choice((0, 0, -100, 500, 2500))
            again = lifecycle.requeue(job_id, progress, wake_at, "it failed", counts=True)
            self.move(job_id, Move.REQUEUE, again)

    def preempt(self, rng: Random) -> None:
        for job_id, progress in self._one(rng, JobState.RUNNING):
            gone = structs.replace(progress, state=JobState.PREEMPTED, placement=None)
            self.move(job_id, Move.PREEMPT, gone)

    def set_gpu(self, rng: Random) -> None:
        """A GPU is paused, lost, hot or well again, or drops off the bus and comes back later."""
        node = self.facts.nodes[rng.choice(sorted(self.facts.nodes))]
        if not node.gpus:
            return
        at = rng.randrange(len(node.gpus))
        gpus = list(node.gpus)
        change = rng.choice(("pause", "lose", "warm", "heat", "heal", "heal", "remove", "return"))
        if change == "remove":
            del gpus[at]
        elif change == "return":
            # It comes back on its old index, whatever still runs there.
            gone = sorted(set(range(6)) - {gpu.index for gpu in gpus})
            gpus += [Gpu(index, f"back-{index}", rng.choice(TYPES), 80_000) for index in gone[:1]]
        else:
            paused = "by hand" if change == "pause" else None
            gpus[at] = replace(
                gpus[at],
                paused=paused,
                problem="lost" if change == "lose" else None,
                heat={"warm": Heat.WARM, "heat": Heat.HOT}.get(change, Heat.COOL),
            )
        self.apply(NodeSet(self.now, replace(node, gpus=tuple(gpus))))

    def tick(self, rng: Random) -> None:
        """The clock moves on; now and then somebody sets it back."""
        self.now += rng.choice((0, 1, 300, 500, 1000, 2500, 3000, 10_000, -400))
        self.apply(TimePassed(self.now))

    def plan(self) -> Plan:
        self.apply(TimePassed(self.now))
        return schedule(self.state, self.now, self.policy)

    def carry_out(self, plan: Plan) -> None:
        for job_id in plan.expired:
            self._end(job_id, Move.COMPLETE, JobState.COMPLETED)
        for job_id, _ in plan.unsatisfiable:
            self._end(job_id, Move.CANCEL, JobState.CANCELLED)
        for start in plan.starts:
            progress = self.facts.progress[start.job_id]
            placed = lifecycle.place(start.job_id, progress, start.placement, self.now)
            self.move(start.job_id, Move.START, placed)

    def _end(self, job_id: JobId, move: Move, to: JobState) -> None:
        self.move(job_id, move, lifecycle.end(job_id, self.facts.progress[job_id], to, self.now))

    def move(self, job_id: JobId, move: Move, progress: Progress) -> None:
        self.apply(JobMoved(self.now, job_id, move, progress))

    def _one(self, rng: Random, *states: JobState) -> list[tuple[JobId, Progress]]:
        """One job in such a state, or none where there is none."""
        ids = self.facts.ids(*states)
        if not ids:
            return []
        job_id = rng.choice(ids)
        return [(job_id, self.facts.progress[job_id])]


STEPS = (
    *(World.submit,) * 4,
    *(World.tick,) * 2,
    *(World.end,) * 3,
    World.run,
    World.requeue,
    World.preempt,
    World.hold,
    World.rerank,
    World.edit,
    World.cancel,
    World.set_gpu,
    World.set_tenant,
    World.set_queue,
)


def a_lived_in_world(rng: Random, steps: int = 40, policy: str = "priority") -> World:
    world = World(rng, policy)
    for step in range(steps):
        rng.choice(STEPS)(world, rng)
        if step % 3 == 0:
            world.carry_out(world.plan())
    return world


def digest_of_plans(seed: int, steps: int = 300) -> str:
    """One hash over every plan of a generated history."""
    rng = Random(seed)
    world = World(rng)
    digest = hashlib.sha256()
    for _ in range(steps):
        rng.choice(STEPS)(world, rng)
        plan = world.plan()
        digest.update(repr(plan).encode())
        world.carry_out(plan)
    return digest.hexdigest()


if __name__ == "__main__":
    sys.stdout.write(digest_of_plans(int(sys.argv[1])))
