"""The clock is set at random while random work goes on: what is charged is what really ran."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_job, a_node, a_tenant
from tgpu.core.check import check_invariants
from tgpu.core.model import lifecycle
from tgpu.core.model.events import (
    ClockStepped,
    Event,
    JobMoved,
    JobsSubmitted,
    NodeSet,
    TenantSet,
    TimePassed,
)
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.node import Placement, Share
from tgpu.core.state.clock_step import moved_by
from tgpu.core.state.cluster_state import State
from tgpu.core.state.digest import digest
from tgpu.journal.job_histories import JobHistories, JobHistory
from tgpu.journal.lines import Journal, end_line, header_line, row_line
from tgpu.journal.rebuild import rebuild
from tgpu.service.accounting.metering import usage_events
from tgpu.store import event_codec

HOUR = 3_600_000
BEGIN = 20_000 * 24 * HOUR
GPUS = 4
TENANT = TenantId("default")


class Work:
    """Jobs and leases on one node, on a clock that is set now and then, and what really was."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.state = State()
        self.events: list[Event] = []
        self.true_now = 0  # since the beginning, on a clock that nobody sets
        self.offset = BEGIN
        self.began: dict[JobId, int] = {}
        self.held: dict[JobId, int] = {}  # how long each had its GPU
        self.leases: dict[JobId, int] = {}  # how long they are to last
        self.apply(TenantSet(self.now, a_tenant("default")))
        self.apply(NodeSet(self.now, a_node("n0", gpus=GPUS)))

    @property
    def now(self) -> int:
        return self.true_now + self.offset

    def apply(self, *events: Event) -> None:
        for event in (*events, *usage_events(self.state, events)):
            self.state.apply(event)
            if not isinstance(event, TimePassed):
                self.events.append(event)

    def go_on(self) -> None:
        action = self.rng.choice((self.pass_time, self.set_clock, self.start, self.start, self.end))
        action()
        self.end_leases()
        check_invariants(self.state)

    def pass_time(self) -> None:
        self.true_now += self.rng.choice((1, 999, 60_000, HOUR, 30 * HOUR))

    def set_clock(self) -> None:
        by = self.rng.choice((5 * HOUR, -5 * HOUR, 3_000, -3_000, 400 * HOUR, -400 * HOUR))
        self.offset += by
        ages = {e.job.job_id: self.now - by - e.job.submitted_at for e in self.state.entries()}
        self.apply(ClockStepped(self.now, by, moved_by(self.state, by)))
        for entry in self.state.entries():
            assert self.now - entry.job.submitted_at == ages[entry.job.job_id], "its age"

    def start(self) -> None:
        number = len(self.held) + len(self.began)
        free = [
            index
            for index in range(GPUS)
            if not self.state.ledger.nodes[NodeId("n0")].gpu_millis.get(index)
        ]
        if not free:
            return
        is_lease = self.rng.random() < 0.5
        limit = self.rng.choice((1_000, HOUR, 40 * HOUR)) if is_lease else None
        name = f"j{number}"
        job = a_job(name, submitted_at=self.now, lease=is_lease, time_limit_ms=limit)
        place = Placement(NodeId("n0"), "A100", (Share(free[0], 1000),))
        self.apply(JobsSubmitted(self.now, (job,)))
        entry = self.state.entry(job.job_id)
        assert entry is not None
        placed = lifecycle.place(job.job_id, entry.progress, place, self.now)
        self.apply(JobMoved(self.now, job.job_id, Move.START, placed))
        self.began[job.job_id] = self.true_now
        if limit is not None:
            self.leases[job.job_id] = limit

    def end(self) -> None:
        jobs = [job_id for job_id in self.began if job_id not in self.leases]
        if jobs:
            self.over(self.rng.choice(jobs))

    def end_leases(self) -> None:
        """As a cycle does."""
        self.apply(TimePassed(self.now))
        for job_id in self.state.expired_leases(self.now):
            lasted = self.true_now - self.began[job_id]
            assert lasted >= self.leases[job_id], "it ended early"
            self.over(job_id)
        for job_id in self.leases.keys() & self.began.keys():
            assert self.true_now - self.began[job_id] < self.leases[job_id], "it never ends"

    def over(self, job_id: JobId) -> None:
        entry = self.state.entry(job_id)
        assert entry is not None
        ended = lifecycle.end(job_id, entry.progress, JobState.COMPLETED, self.now, exit_code=0)
        self.apply(JobMoved(self.now, job_id, Move.COMPLETE, ended))
        self.held[job_id] = self.true_now - self.began.pop(job_id)


def worked(seed: int) -> Work:
    work = Work(Random(seed))
    for _ in range(40):
        work.go_on()
    return work


@given(seed=st.integers(0, 2**32))
def test_what_is_charged_is_what_really_ran_and_no_lease_ends_early_or_never(seed: int) -> None:
    work = worked(seed)
    really = sum(work.held.values()) * 1000
    running = sum(work.true_now - began for began in work.began.values()) * 1000
    usage = sum(used.gpu_millis_ms for used in work.state.usage.values())
    assert usage == really
    spend = work.state.budgets.spend(TENANT).upto(work.now)
    assert spend.total == really + running
    assert 0 <= spend.day <= spend.week <= spend.total
    assert spend.month <= spend.total


@given(seed=st.integers(0, 2**32))
def test_the_journal_tells_it_all(seed: int) -> None:
    work = worked(seed)
    rows = [
        row_line(seq, event_codec.kind_of(event), event_codec.event_text(event, {}).encode())
        for seq, event in enumerate(work.events, 1)
    ]
    header = header_line(exported_at=0, last_seq=len(rows))
    lines = [header, *rows, end_line(len(rows), len(rows))]
    found = rebuild(Journal("x", lines)).state
    for state in (found, work.state):
        state.apply(TimePassed(work.now))
    assert digest(found) == digest(work.state)
    over: list[JobHistory] = []
    lives = JobHistories(over.append)
    journal = Journal("x", lines)
    for row in journal.rows():
        lives.take(row, journal.event(row))
    assert {life.job.job_id: life.held_ms for life in over} == work.held
