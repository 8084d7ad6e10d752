"""Every event has the number of the decision that it is of, and who made that: a cycle, …"""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.journal.history import BEGIN, Player, a_service, lines_of
from tests.integration.journal.test_journal_is_the_service import replayed
from tgpu.app.replaying import replay
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import Move
from tgpu.journal.excerpt import excerpt_lines
from tgpu.journal.lines import Journal
from tgpu.journal.rebuild import rebuild
from tgpu.journal.replay import JournalWalk, ReplayTarget
from tgpu.service.recording.audit import Trail, following
from tgpu.service.recording.decision import Decide, Decision
from tgpu.service.service import Service
from tgpu.store.api import Decider, Record

BEFORE = Path(__file__).with_name("before_decisions.jsonl")
PREEMPTING = {
    "scheduler.enable_preemption": True,
    "scheduler.preempt_min_run_seconds": 0,
    "scheduler.preempt_spare_seconds": 0,
}


@dataclass
class Seen:
    """What went through the writer and into the store, noted from outside of both."""

    decided: list[tuple[str, int]] = field(default_factory=list)  # by whom, and how many events
    commits: list[int] = field(default_factory=list)  # how many events

    def watch(self, service: Service) -> None:
        do, commit = service.writer.do, service.store.commit

        async def watched_do(decide: Decide[Any], touches: Any, **how: Any) -> Any:
            def watched(state: Any) -> Decision[Any]:
                decision = decide(state)
                if decision.events:
                    by = how.get("by") or Decider.SERVICE
                    self.decided.append((str(by), len(decision.events)))
                return decision

            return await do(watched, touches, **how)

        async def watched_commit(record: Record) -> int:
            last = await commit(record)
            if record.events:
                self.commits.append(len(record.events))
            return last

        service.writer.do = watched_do  # type: ignore[method-assign]  # it is what we look at
        service.store.commit = watched_commit  # type: ignore[method-assign]  # the same


class Crowd(Player):
    """The same players, several at a time: their commands share commits."""

    async def play(self, service: Service, steps: int) -> None:
        for _ in range(steps):
            many = [self.submit(service) for _ in range(self.rng.randrange(4))]
            await asyncio.gather(*many)
            some = self.known[-4:]
            if some and not self.rng.randrange(3):
                chosen = [service.jobs.cancel(job_id) for job_id in some]
                await asyncio.gather(*(self.try_to(one) for one in chosen))
            await super().play(service, 1)

    async def submit(self, service: Service) -> None:
        self.known.append(JobId(f"taken-{len(self.known):03}"))  # so that no two take one name
        await super().submit(service)


def rows_of(lines: list[bytes]) -> list[dict[str, Any]]:
    return [row for row in map(json.loads, lines) if "event" in row]


async def lived(
    directory: Path, config: Mapping[str, Any], seed: int, steps: int, starts: int
) -> tuple[list[bytes], Seen, Player, list[int]]:
    """A service that is started several times; `ends` has the last event of each of its lives."""
    seen, player, ends = Seen(), Crowd(seed), list[int]()
    lines: list[bytes] = []
    for _ in range(starts):
        async with a_service(directory, config) as service:
            opened = service.feed.last_seq - (ends[-1] if ends else 0)
            if opened:
                seen.commits.append(opened)  # what a start brings; not looked at one by one
            seen.watch(service)
            service.clock.set(max(player.now, BEGIN))  # type: ignore[attr-defined]  # it is manual
            await player.play(service, steps)
            lines = await lines_of(service)
            ends.append(service.feed.last_seq)
    return lines, seen, player, ends


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 10_000), starts=st.integers(1, 3))
def test_rows_of_one_number_are_what_was_decided_together(seed: int, starts: int) -> None:
    with TemporaryDirectory() as directory:
        history = lived(Path(directory), PREEMPTING, seed, 8, starts)
        lines, seen, player, _ = asyncio.run(history)
    rows = rows_of(lines)
    groups = [list(group) for _, group in groupby(rows, key=lambda row: row["decision"])]
    # Dense, over restarts too, and nothing of another decision in between.
    assert [group[0]["decision"] for group in groups] == list(range(1, len(groups) + 1))
    assert all(len({row["decided_by"] for row in group}) == 1 for group in groups)
    # A cycle is a commit of its own, and others share theirs as a whole.
    ends, at = set(), 0
    for count in seen.commits:
        at += count
        ends.add(at)
    lasts = {group[-1]["seq"] for group in groups}
    assert ends <= lasts
    cycles = [group for group in groups if group[0]["decided_by"] == "cycle"]
    for group in cycles:
        assert group[0]["seq"] - 1 in {0, *ends}
        assert group[-1]["seq"] in ends
    # As many cycles as were made and decided something, each with all of its starts.
    made = [(now, plan) for now, plan in player.plans if plan]
    assert [group[0]["event"]["at"] for group in cycles] == [now for now, _ in made]
    for group, (_, plan) in zip(cycles, made, strict=True):
        moves = [row["event"] for row in group if row["kind"] == "job_moved"]
        started = [move["job_id"] for move in moves if move["move"] == Move.START]
        assert started == [start.job_id for start in plan.starts]
    # What was decided, without what it used up, by whom.
    assert [by for by, _ in seen.decided if by == "cycle"] == ["cycle"] * len(cycles)
    assert len(replayed(lines)) == len(cycles)


async def test_commands_that_share_a_commit_have_numbers_and_usage_of_their_own(tmp_path):
    async with a_service(tmp_path, {"database.kind": "memory"}) as service:
        player = Player(seed=1)
        while len(player.known) < 3:
            await player.submit(service)
        seen = Seen()
        seen.watch(service)
        first = service.feed.last_seq
        await asyncio.gather(*(service.jobs.cancel(job_id) for job_id in player.known))
        rows = [row for row in await service.store.journal(first, 100)]
    assert seen.commits == [len(rows)]
    by_decision = groupby(rows, key=lambda row: row.decision)
    assert [[row.kind for row in group] for _, group in by_decision] == [
        ["job_moved", "usage_added"]
    ] * 3


async def test_a_commit_that_fails_uses_up_no_number(tmp_path):
    async with a_service(tmp_path, {"database.kind": "memory"}) as service:
        player, commit = Player(seed=1), service.store.commit

        async def failing(record: Record) -> int:
            raise RuntimeError("no")

        service.store.commit = failing  # type: ignore[method-assign]  # for a moment
        before = service.writer.last_decision
        with contextlib.suppress(RuntimeError):
            await player.submit(service)
        service.store.commit = commit  # type: ignore[method-assign]  # as it was
        await player.submit(service)
        (*_, row) = await service.store.journal(0, 100)
        assert row.decision is not None
        assert row.decision.number == before + 1


async def test_from_an_event_to_who_asked_for_it(tmp_path):
    async with a_service(tmp_path, {"database.kind": "memory"}) as service:
        with following(Trail("user:ada", "POST /api/v1/jobs", "unix")):
            await Player(seed=1).submit(service)
        (*_, row) = await service.store.journal(0, 100)
        (audited,) = await service.store.audit()
    assert row.decision is not None
    assert row.decision.by is Decider.COMMAND
    assert audited.decision == row.decision.number
    assert audited.actor == "user:ada"


async def test_a_cycle_that_somebody_asked_for_is_a_cycle_and_has_its_audit_row(tmp_path):
    async with a_service(tmp_path, {"database.kind": "memory"}) as service:
        player = Player(seed=1)
        await player.submit(service)
        with following(Trail("user:ada", "POST /schedule", "unix")):
            await player.tick(service)
        (*_, row) = await service.store.journal(0, 100)
        (audited,) = await service.store.audit()
    assert row.decision is not None
    assert row.decision.by is Decider.CYCLE
    assert audited.decision == row.decision.number


def without_numbers(lines: list[bytes]) -> list[bytes]:
    """As the version before wrote them."""
    found = []
    for line in map(json.loads, lines):
        line.pop("decision", None)
        line.pop("decided_by", None)
        found.append(json.dumps(line).encode() + b"\n")
    return found


async def test_a_journal_without_numbers_has_the_same_cycles(tmp_path):
    lines, _, _, _ = await lived(tmp_path, PREEMPTING, 5, 30, 1)
    told, guessed = replayed(lines), replayed(without_numbers(lines))
    assert len(told) > 10
    assert [(step.at, plan) for step, plan in told] == [(step.at, plan) for step, plan in guessed]


async def test_a_journal_that_goes_on_with_numbers_is_read_to_its_end(tmp_path):
    lines, _, _, _ = await lived(tmp_path, PREEMPTING, 5, 30, 1)
    middle = len(lines) // 2
    mixed = [*without_numbers(lines[:middle]), *lines[middle:]]
    assert len(replayed(mixed)) >= len(replayed(lines))


def test_a_journal_that_the_version_before_wrote_is_replayed() -> None:
    lines = BEFORE.read_bytes().splitlines(keepends=True)
    assert not any("decision" in row for row in rows_of(lines))
    found = [(step.first_seq, step.last_seq) for step, _ in replayed(lines)]
    assert found == [(10, 11), (15, 22), (24, 30), (31, 32), (35, 38)]
    for first, last in found:
        answer = replay(Journal("before", lines), ReplayTarget(seq=last))
        assert answer.agrees
        assert answer.cycle_seq == (first, last)
    state = rebuild(Journal("before", lines)).state
    left = sorted(
        (one.job.job_id, one.progress.state, one.progress.attempt) for one in state.entries()
    )
    assert left == [("long", "running", 2), ("small", "running", 2)]
    assert list(state.ledger.tenants) == ["vision", "speech", "free"]
    assert [len(use.node.gpus) for use in state.ledger.nodes.values()] == [4]


def test_who_decided_is_read_from_the_number_and_never_from_the_words() -> None:
    """A cycle whose sentences are others, and a command that uses those of a cycle."""
    lines = BEFORE.read_bytes().splitlines(keepends=True)
    written = []
    for line in map(json.loads, lines):
        seq = line.get("seq", 0)
        if "event" in line:
            is_cycle = 24 <= seq <= 30
            line |= {"decision": 24 if is_cycle else seq, "decided_by": "command"}
            if is_cycle:
                line["decided_by"] = "cycle"
                if seq == 24:
                    line["event"]["progress"]["cause"] = "over, in other words"
        written.append(json.dumps(line).encode() + b"\n")
    walk = JournalWalk(Journal("test", written))
    found = [(step.first_seq, step.last_seq) for step in walk.steps() if step.is_cycle]
    assert found == [(24, 30)]


async def test_a_part_of_a_journal_keeps_the_numbers(tmp_path):
    lines, _, player, _ = await lived(tmp_path, {"database.kind": "memory"}, 5, 20, 1)
    middle = player.plans[10][0]
    part = [line for line, _ in excerpt_lines(Journal("test", lines), middle, None)]
    whole = {row["seq"]: row for row in rows_of(lines)}
    assert rows_of(part)
    assert all(whole[row["seq"]] == row for row in rows_of(part))
