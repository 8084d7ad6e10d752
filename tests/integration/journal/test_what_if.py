"""The past lived again: as it was it comes out as it did, and changes change it."""

import pytest

from tests.integration.journal.history import a_history
from tgpu.app import whatif
from tgpu.app.whatif import compare, past_of
from tgpu.core.model.ids import NodeId, TenantId
from tgpu.core.model.node import Gpu, Node
from tgpu.journal.excerpt import excerpt_lines
from tgpu.journal.lines import Journal
from tgpu.journal.recorded_past import RecordedPast
from tgpu.journal.resimulate import Changes, Resimulated, resimulate

EXACT = {
    "fifo": {"scheduler.policy": "fifo"},
    "strict": {"scheduler.policy": "fifo", "scheduler.backfill": "strict"},
    "greedy": {"scheduler.backfill": "greedy"},
    "conservative": {"scheduler.policy": "fifo", "scheduler.backfill": "conservative"},
}
MEMORY = {"database.kind": "memory"}


def again(past: RecordedPast) -> Resimulated:
    return resimulate(past, whatif._maker({}))


def unlike(past: RecordedPast, lived: Resimulated) -> list[str]:
    assert lived.fates.keys() == past.lives.keys()
    return [
        job_id
        for job_id, fate in lived.fates.items()
        if (fate.first_start, fate.ended_at)
        != (past.lives[job_id].first_start, past.lives[job_id].ended_at)
    ]


@pytest.mark.parametrize("name", EXACT)
async def test_without_a_change_every_job_starts_and_ends_as_it_did(name, tmp_path):
    lived = await a_history(tmp_path, {**MEMORY, **EXACT[name]}, seed=5)
    past = past_of(Journal("test", lived.lines), None, None)
    assert past is not None
    assert len(past.lives) > 80
    assert unlike(past, again(past)) == []


@pytest.mark.parametrize("name", ["fifo", "strict", "greedy"])
async def test_a_stretch_begins_with_what_ran_and_waited_then(name, tmp_path):
    lived = await a_history(tmp_path, {**MEMORY, **EXACT[name]}, seed=6)
    begin, end = lived.plans[50][0], lived.plans[100][0]
    past = past_of(Journal("test", lived.lines), begin, end)
    assert past is not None
    assert past.before
    assert past.cut
    assert unlike(past, again(past)) == []


async def test_a_file_that_begins_in_the_middle_tells_the_same(tmp_path):
    lived = await a_history(tmp_path, {**MEMORY, **EXACT["fifo"]}, seed=8)
    begin = lived.plans[60][0]
    part = [line for line, _ in excerpt_lines(Journal("test", lived.lines), begin, None)]
    of_all = past_of(Journal("test", lived.lines), begin, None)
    of_part = past_of(Journal("part", part), None, None)
    assert of_all is not None
    assert of_part is not None
    assert unlike(of_part, again(of_part)) == []
    assert of_part.lives.keys() == of_all.lives.keys()


async def test_time_before_the_first_event_does_not_count(tmp_path):
    lived = await a_history(tmp_path, MEMORY, steps=20)
    whole = past_of(Journal("test", lived.lines), None, None)
    early = past_of(Journal("test", lived.lines), 0, None)
    assert whole is not None
    assert early is not None
    assert early.begins == whole.begins > 0


async def test_what_really_was_and_what_is_simulated_have_the_same_figures(tmp_path):
    lived = await a_history(tmp_path, {**MEMORY, **EXACT["fifo"]}, seed=9)
    past = past_of(Journal("test", lived.lines), lived.plans[20][0], None)
    assert past is not None
    found = compare(past)
    assert found.changed is None
    assert found.really == found.simulated
    assert 0 < found.really.use_percent <= 100
    assert found.really.wait_s.mean > 0


async def test_more_nodes_shorten_the_wait_and_cost_more_of_what_there_is(tmp_path):
    lived = await a_history(tmp_path, {**MEMORY, "billing.cost_per_gpu_hour": 2.0}, seed=2)
    past = past_of(Journal("test", lived.lines), None, None)
    assert past is not None
    gpus = tuple(Gpu(at, f"x-{at}", "A100", 81_920) for at in range(8))
    found = compare(past, Changes(add=(Node(NodeId("x"), gpus, 10**9, 10**9),)))
    assert found.changed is not None
    assert found.changed.wait_s.mean < found.simulated.wait_s.mean / 2
    assert found.changed.offered_gpu_hours == pytest.approx(found.simulated.offered_gpu_hours * 3)
    assert found.changed.started >= found.simulated.started
    assert found.changed.cost == pytest.approx(2 * found.changed.gpu_hours)


async def test_a_quota_holds_in_the_changed_world_alone(tmp_path):
    lived = await a_history(tmp_path, MEMORY, seed=2)
    past = past_of(Journal("test", lived.lines), None, None)
    assert past is not None
    found = compare(past, Changes(quotas={(TenantId("free"), None): 0}))
    assert found.changed is not None
    shares = {one.tenant: one.gpu_hours for one in found.changed.tenants}
    before = {one.tenant: one.gpu_hours for one in found.simulated.tenants}
    assert shares["free"] == 0 < before["free"]
    assert shares["vision"] > 0


async def test_a_node_that_is_removed_starts_nobody(tmp_path):
    lived = await a_history(tmp_path, MEMORY, seed=2, steps=40)
    past = past_of(Journal("test", lived.lines), None, None)
    assert past is not None
    found = compare(past, Changes(remove=frozenset({NodeId("local")})))
    assert found.changed is not None
    assert found.changed.started == 0
    assert found.changed.offered_gpu_hours == 0


async def test_another_policy_is_tried_with_the_code_of_the_service(tmp_path):
    lived = await a_history(tmp_path, {**MEMORY, **EXACT["strict"]}, seed=2)
    past = past_of(Journal("test", lived.lines), None, None)
    assert past is not None
    found = compare(past, overrides={"scheduler.backfill": "greedy"})
    assert found.changed is not None
    assert found.changed.wait_s.mean < found.simulated.wait_s.mean


async def test_jobs_that_were_preempted_and_never_ended_are_not_over_at_once(tmp_path):
    settings = {
        **MEMORY,
        "scheduler.enable_preemption": True,
        "scheduler.preempt_min_run_seconds": 0,
        "scheduler.preempt_spare_seconds": 0,
    }
    lived = await a_history(tmp_path, settings, seed=2)
    past = past_of(Journal("test", lived.lines), None, None)
    assert past is not None
    assert any(life.preemptions for life in past.lives.values())
    found = compare(past)
    assert found.really.preemptions > 0
    assert found.simulated.preemptions > 0
    assert all(past.left_ms(job_id) > 0 for job_id in past.unknown)


def test_a_setting_that_is_none_is_refused_by_name():
    for name, value in (("scheduler.no_such", 1), ("scheduler.backfill", "sideways")):
        with pytest.raises(ValueError, match=name):
            whatif.check_overrides({name: value})
