"""The live service on a manual clock and the simulator make the same plans of the same facts."""

from dataclasses import dataclass
from random import Random

import pytest

from tests.unit.service.world import a_box, a_submission
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Options
from tgpu.core.model.plan import Plan
from tgpu.core.model.rules import BackfillMode, PlacementRule, Rules
from tgpu.core.policies import order_policy
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.service.recording.clock import ManualClock
from tgpu.simulate.run import Setting, simulate
from tgpu.simulate.world import Arrival, Cluster


@dataclass(frozen=True)
class Wish:
    """What somebody will submit."""

    at: int
    runs: int
    gpus: float


def wishes(seed: int) -> list[Wish]:
    rng = Random(seed)
    found = [
        Wish(rng.randrange(1, 400), rng.randrange(5, 120), rng.choice((0.5, 1, 1, 2, 4)))
        for _ in range(60)
    ]
    return sorted(found, key=lambda wish: wish.at)


SETTINGS = [
    Setting(
        SchedulingConfig(
            order_policy("fifo"), Rules(BackfillMode.STRICT), PlacementRule.CONSOLIDATED
        )
    ),
    Setting(SchedulingConfig(order_policy("fifo"), Rules(BackfillMode.GREEDY))),
    Setting(SchedulingConfig(order_policy("priority"), Rules(BackfillMode.EASY, hold_after_ms=50))),
    Setting(SchedulingConfig(order_policy("fairshare"), Rules(BackfillMode.CONSERVATIVE))),
    Setting(SchedulingConfig(order_policy("las"))),
    Setting(SchedulingConfig(order_policy("adaptive"))),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.scheduling.rules.backfill)
async def test_the_simulator_and_the_live_service_make_the_same_plans(setting):
    wanted = wishes(seed=11)
    live, arrivals, cluster = await through_the_service(wanted, setting)
    simulated: list[tuple[int, str]] = []
    every = Setting(setting.scheduling, every_cycle=True)

    def show(now: int, plan: Plan) -> None:
        simulated.append((now, repr(plan)))

    result = simulate(arrivals, cluster, every, show=show)
    assert result.unfinished == 0
    assert simulated == live
    assert sum("Start(" in plan for _, plan in live) > 20


async def through_the_service(
    wanted: list[Wish], setting: Setting
) -> tuple[list[tuple[int, str]], list[Arrival], Cluster]:
    """The plans of each instant, and what the simulator must be given to make them again."""
    plans: list[tuple[int, str]] = []
    runs: dict[str, int] = {}
    arrivals: dict[str, Arrival] = {}
    ends: dict[str, int] = {}
    clock = ManualClock()
    async with a_box(
        leases=True,
        gpus="sim:4xA100",
        clock=clock,
        scheduling=setting.scheduling,
    ) as box:
        state = box.service.state
        nodes = tuple(use.node for use in state.ledger.nodes.values())
        tenants = tuple(use.tenant for use in state.ledger.tenants.values())
        left = list(wanted)
        while left or ends:
            now = min([*(wish.at for wish in left[:1]), *ends.values()])
            clock.set(now)
            for job_id in sorted(name for name, at in ends.items() if at == now):
                await box.service.jobs.complete(JobId(job_id))
                del ends[job_id]
            while left and left[0].at == now:
                wish = left.pop(0)
                job_id = f"j{len(left):03}"
                runs[job_id] = wish.runs
                options = Options(lease=True)
                await box.submit(a_submission(job_id=job_id, gpus=wish.gpus, options=options))
                entry = state.entry(JobId(job_id))
                assert entry is not None
                arrivals[job_id] = Arrival(entry.job, wish.runs)
            plan = await box.service.tick(now)
            plans.append((now, repr(plan)))
            for start in plan.starts:
                ends[start.job_id] = now + runs[start.job_id]
    return plans, list(arrivals.values()), Cluster({"": nodes}, tenants)
