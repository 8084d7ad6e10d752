"""Over a long time with everybody busy, each gets what their weight entitles them to."""

from heapq import heappop, heappush
from random import Random

import pytest

from tests.builders import a_node
from tgpu.core.accounting.meter import Meters
from tgpu.core.cycle import schedule
from tgpu.core.model import lifecycle
from tgpu.core.model.events import JobMoved, JobsSubmitted, NodeSet, TenantSet, TimePassed
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job, Options, Request
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.rules import BackfillMode, Rules
from tgpu.core.model.tenant import Tenant
from tgpu.core.policies.fair_share import FairShare
from tgpu.core.state.cluster_state import State

MINUTE = 60_000
HOUR = 60 * MINUTE
USERS = ("ann", "bob", "cem")

# Under greedy whoever has small jobs gets more than their share: large ones find no gap.
STRICT = Rules(backfill=BackfillMode.STRICT)
EASY = Rules(backfill=BackfillMode.EASY)


class Busy:
    """Tenants whose users always have jobs waiting, each with their own sizes and lengths."""

    def __init__(self, rng: Random, weights: dict[str, int], rules: Rules) -> None:
        self.rng = rng
        self.rules = rules
        self.state = State()
        self.state.meters = Meters(168 * HOUR)
        self.now = 0
        self.used: dict[tuple[str, str], int] = {}
        self._count = 0
        self._ends: list[tuple[int, JobId]] = []
        self._habits: dict[tuple[str, str], tuple[list[int], int]] = {}
        self.state.apply(NodeSet(0, a_node("n0", gpus=8)))
        for name, weight in weights.items():
            self.state.apply(TenantSet(0, Tenant(TenantId(name), weight_millis=weight)))
            for user in USERS:
                sizes = rng.choice(([1000], [500, 1000], [1000, 2000, 4000], [250, 3000]))
                self._habits[name, user] = (sizes, rng.choice((20, 60, 100)))
                for _ in range(3):
                    self._submit(name, user)

    def run(self, hours: int) -> None:
        while self.now < hours * HOUR:
            self._cycle()
            self.now, job_id = heappop(self._ends)
            self._end(job_id)

    def _submit(self, tenant: str, user: str) -> None:
        sizes, minutes = self._habits[tenant, user]
        self._count += 1
        job = Job(
            JobId(f"j{self._count:06}"),
            TenantId(tenant),
            500,
            self.now,
            Request(self.rng.choice(sizes)),
            options=Options(user=user, time_limit_ms=self.rng.randint(1, 2 * minutes) * MINUTE),
        )
        self.state.apply(JobsSubmitted(self.now, (job,)))

    def _cycle(self) -> None:
        self.state.apply(TimePassed(self.now))
        for start in schedule(self.state, self.now, FairShare(), rules=self.rules).starts:
            entry = self.state.entry(start.job_id)
            assert entry is not None
            placed = lifecycle.place(start.job_id, entry.progress, start.placement, self.now)
            self.state.apply(JobMoved(self.now, start.job_id, Move.START, placed))
            heappush(self._ends, (self.now + (entry.job.options.time_limit_ms or 0), start.job_id))
            self._submit(entry.job.tenant_id, entry.job.options.user)

    def _end(self, job_id: JobId) -> None:
        entry = self.state.entry(job_id)
        assert entry is not None
        job, progress = entry.job, entry.progress
        ran = self.now - (progress.started_at or 0)
        key = (job.tenant_id, job.options.user)
        self.used[key] = self.used.get(key, 0) + ran * job.request.gpu_millis
        ended = lifecycle.end(job_id, progress, JobState.COMPLETED, self.now)
        self.state.apply(JobMoved(self.now, job_id, Move.COMPLETE, ended))

    def parts(self) -> dict[str, float]:
        """Of all GPU time, by tenant."""
        whole = sum(self.used.values())
        found: dict[str, float] = {}
        for (tenant, _), used in self.used.items():
            found[tenant] = found.get(tenant, 0) + used / whole
        return found

    def parts_of_users(self, tenant: str) -> dict[str, float]:
        mine = {user: used for (name, user), used in self.used.items() if name == tenant}
        whole = sum(mine.values())
        return {user: used / whole for user, used in mine.items()}


EQUAL = {"red": 1000, "green": 1000, "blue": 1000}
STEEP = {"red": 1000, "green": 2000, "blue": 5000}
UNEVEN = {"red": 700, "green": 3300}


@pytest.mark.parametrize(
    ("weights", "seed", "rules"),
    [
        (EQUAL, 1, STRICT),
        (EQUAL, 2, STRICT),
        (STEEP, 1, STRICT),
        (STEEP, 3, STRICT),
        (UNEVEN, 2, STRICT),
        (UNEVEN, 3, STRICT),
        (STEEP, 4, EASY),
    ],
)
def test_everybody_gets_what_their_weight_says(
    weights: dict[str, int], seed: int, rules: Rules
) -> None:
    busy = Busy(Random(seed), weights, rules)
    busy.run(hours=30 * 24)
    whole = sum(weights.values())
    for tenant, part in busy.parts().items():
        assert part == pytest.approx(weights[tenant] / whole, rel=0.02), busy.parts()
        for user, share in busy.parts_of_users(tenant).items():
            assert share == pytest.approx(1 / len(USERS), abs=0.02), (tenant, user)
