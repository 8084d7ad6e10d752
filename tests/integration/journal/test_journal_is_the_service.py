"""What the journal says is what the service was: the same state, and the same decisions."""

import json

import pytest

from tests.integration.journal.history import BEGIN, Player, a_history, a_service, lines_of
from tgpu.app.replaying import Promising, in_force, passages, replay
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import Move
from tgpu.core.model.plan import Plan
from tgpu.core.state.digest import digest
from tgpu.journal.excerpt import excerpt_lines
from tgpu.journal.lines import Journal
from tgpu.journal.rebuild import rebuild
from tgpu.journal.replay import JournalWalk, ReplayTarget, Step, decided, differences, recorded

SETTINGS = {
    "usual": {},
    "strict": {"scheduler.policy": "fifo", "scheduler.backfill": "strict"},
    "fair": {"scheduler.policy": "fairshare", "scheduler.fair_share_half_life_hours": 0.1},
    "shortest": {"scheduler.policy": "shortest", "scheduler.placement": "consolidated"},
    "quickest": {"scheduler.policy": "quickest", "scheduler.backfill": "greedy"},
    "conservative": {"scheduler.backfill": "conservative"},
    "adaptive": {"scheduler.policy": "adaptive", "scheduler.enable_preemption": True},
    "ranked": {"scheduler.policy": "las", "scheduler.enable_preemption": True},
    "preempting": {
        "scheduler.enable_preemption": True,
        "scheduler.preempt_min_run_seconds": 0,
        "scheduler.preempt_spare_seconds": 0,
        "scheduler.backfill": "greedy",
    },
}


@pytest.fixture(params=SETTINGS)
def settings(request: pytest.FixtureRequest) -> dict[str, object]:
    found = SETTINGS[request.param]
    assert isinstance(found, dict)
    return {"database.kind": "memory", **found}


async def test_a_state_rebuilt_from_the_journal_is_the_state_of_the_service(settings, tmp_path):
    lived = await a_history(tmp_path, settings)
    journal = Journal("test", lived.lines)
    assert digest(rebuild(journal).state) == lived.digest
    assert journal.is_whole


def replayed(lines: list[bytes]) -> list[tuple[Step, Plan]]:
    """Every recorded cycle, decided again; what differs is an error."""
    walk = JournalWalk(Journal("test", lines), promise=Promising())
    found = []
    for step in walk.steps():
        if not step.is_cycle:
            continue
        walk.rebuilt.pass_time(step.at)
        state, force = walk.rebuilt.state, in_force(walk.rebuilt)
        plan = force.scheduling.decide(state, step.at, walk.promises)
        assert differences(recorded(step, state), decided(plan, state)) == []
        found.append((step, plan))
    return found


async def test_every_recorded_cycle_is_decided_again_as_it_was(settings, tmp_path):
    lived = await a_history(tmp_path, settings)
    found = replayed(lived.lines)
    expected = [(now, plan) for now, plan in lived.plans if plan]
    assert len(expected) > 15
    assert [(step.at, plan.starts) for step, plan in found] == [
        (now, plan.starts) for now, plan in expected
    ]
    for step, plan in found[:: len(found) // 4]:
        answer = replay(Journal("test", lived.lines), ReplayTarget(seq=step.last_seq))
        assert answer.agrees
        assert answer.settings_recorded
        assert [one.job.job_id for one in answer.starts] == [one.job_id for one in plan.starts]
        assert answer.cycle_seq == (step.first_seq, step.last_seq)


async def test_a_part_of_a_journal_goes_on_from_where_it_begins(settings, tmp_path):
    lived = await a_history(tmp_path, settings)
    middle = lived.plans[60][0]
    part = [line for line, _ in excerpt_lines(Journal("test", lived.lines), middle, None)]
    journal = Journal("part", part)
    assert journal.header.after > 0
    assert len(part) < len(lived.lines)
    assert digest(rebuild(journal).state) == lived.digest
    if settings.get("scheduler.backfill") != "conservative":  # what was promised before is gone
        assert len(replayed(part)) > 2


async def test_a_journal_of_a_policy_that_services_had_once_is_read_and_replayed(tmp_path):
    config = {
        "database.kind": "memory",
        "scheduler.policy": "las",
        "scheduler.enable_preemption": True,
    }
    lived = await a_history(tmp_path, config)
    middle = lived.plans[60][0]
    part = [line for line, _ in excerpt_lines(Journal("test", lived.lines), middle, None)]
    # As it was written then, with what snapshots had for its rounds.
    old = [
        line.replace(b'"las"', b'"tiresias"').replace(
            b'"begun":', b'"looked_at":5000,"gave_way_at":4000,"begun":'
        )
        for line in part
    ]
    assert b"tiresias" in b"".join(old)
    assert b"gave_way_at" in b"".join(old)
    assert digest(rebuild(Journal("old", old)).state) == lived.digest
    answer = replay(Journal("old", old), ReplayTarget(seq=json.loads(old[-2])["seq"]))
    assert answer.settings["scheduler.policy"] == "las"
    assert "no service has the policy tiresias any more: las replaced it" in answer.notes


async def test_a_restart_in_between_changes_neither_state_nor_decisions(tmp_path):
    player = Player(seed=3)
    for policy in ("fairshare", "priority", "priority"):
        config = {"scheduler.policy": policy, "scheduler.fair_share_half_life_hours": 0.2}
        async with a_service(tmp_path, config) as service:
            service.clock.set(max(player.now, BEGIN))  # type: ignore[attr-defined]  # it is manual
            await player.play(service, 40)
            lines, live = await lines_of(service), digest(service.state)
    assert digest(rebuild(Journal("test", lines)).state) == live
    recorded = [json.loads(line) for line in lines]
    changed = [one["seq"] for one in recorded if one.get("kind") == "settings_set"]
    assert len(changed) == 2  # the third start had the settings of the second
    assert len(replayed(lines)) > 30
    first, last = (
        replay(Journal("test", lines), ReplayTarget(seq=seq))
        for seq in (changed[1] - 1, len(lines) - 2)
    )
    assert first.settings["scheduler.policy"] == "fairshare"
    assert last.settings["scheduler.policy"] == "priority"


async def test_nothing_of_an_environment_or_a_command_leaves_the_service(tmp_path):
    lived = await a_history(tmp_path, {"database.kind": "memory"}, steps=20)
    text = b"".join(lived.lines)
    assert b"train j000" in text
    assert b"hush" not in text
    assert b"API_KEY" not in text


async def test_a_replay_tells_who_passed_a_job_and_why_it_could_not_start(tmp_path):
    lived = await a_history(tmp_path, {"database.kind": "memory"}, seed=7, steps=160)
    walk = JournalWalk(Journal("test", lived.lines))
    waited: dict[JobId, int] = {}
    for step in walk.steps():
        started = {event.job_id for event in step.moves(Move.START)} if step.is_cycle else set()
        for entry in walk.rebuilt.state.entries():
            if started and not walk.rebuilt.state.is_placed(entry.job.job_id):
                waited[entry.job.job_id] = waited.get(entry.job.job_id, 0) + 1
    patient = max(waited, key=lambda job_id: waited[job_id])
    found = passages(Journal("test", lived.lines), patient)
    assert found
    assert any(one.passed for one in found)
    first = next(one for one in found if one.passed)
    answer = replay(Journal("test", lived.lines), ReplayTarget(seq=first.seq), job_id=patient)
    assert answer.job is not None
    assert answer.job.passed_by == first.passed
    assert answer.job.reason is not None
    assert answer.job.reason.message
    hers = ReplayTarget(start_of=JobId(first.passed[0]))
    assert replay(Journal("test", lived.lines), hers).seq == answer.seq
