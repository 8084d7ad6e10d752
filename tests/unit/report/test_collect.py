"""What a journal says of a stretch of time."""

import pytest

from tests.unit.report.journals import DAY, HOUR, T0, Story, a_journal, a_node, in_order, nodes
from tgpu.core.model.cause import Fault
from tgpu.core.model.events import TenantSet
from tgpu.core.model.ids import TenantId
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.tenant import Tenant
from tgpu.journal.excerpt import excerpt_lines
from tgpu.journal.lines import Journal, header_line
from tgpu.report.collect import Collected, collect
from tgpu.report.figures import Series, capacity_ms, figures, step_of, use_by_gpu


def read(*stories: Story, since=T0, until=T0 + 10 * HOUR, node=None, tenant=None, **fields):
    events = [*nodes(node or a_node()), *in_order(*stories)]
    return collect(a_journal(events, until=until, **fields), since, until, tenant)


def test_an_empty_journal_is_an_empty_report():
    numbers = figures(collect(a_journal([], until=T0), T0 - DAY, T0))
    assert numbers.jobs_submitted == numbers.gpus == 0
    assert numbers.gpu_hours == 0
    assert numbers.mean_wait_s is numbers.idle_percent is numbers.cost is None


def test_one_job_is_counted_in_hours_money_and_waits():
    job = Story("1", T0).start(T0 + HOUR, [0, 1]).end(T0 + 3 * HOUR)
    numbers = figures(read(job, price=2.5))
    assert numbers.jobs_submitted == numbers.jobs_started == numbers.jobs_completed == 1
    assert numbers.gpu_hours == 4
    assert numbers.cost == 10
    assert numbers.mean_wait_s == numbers.p90_wait_s == numbers.longest_wait_s == 3600
    assert numbers.idle_percent == 90  # 4 of 40 GPU-hours


def test_what_still_runs_and_waits_counts_up_to_the_end():
    running = Story("1", T0).start(T0 + 9 * HOUR)
    found = read(running, Story("2", T0))
    assert figures(found).gpu_hours == 1
    assert (found.running, found.waiting) == (1, 1)


def test_only_the_part_inside_the_window_counts():
    over = Story("1", T0).start(T0 + HOUR).end(T0 + 6 * HOUR)
    before = Story("0", T0).start(T0 + HOUR, [1]).end(T0 + 2 * HOUR)
    numbers = figures(read(before, over, since=T0 + 5 * HOUR))
    assert numbers.gpu_hours == 1
    assert numbers.jobs_submitted == numbers.jobs_started == 0
    assert numbers.jobs_completed == 1


def test_what_is_after_the_window_does_not_count():
    events = [*nodes(a_node()), *in_order(Story("1", T0).start(T0 + HOUR).end(T0 + 8 * HOUR))]
    found = collect(a_journal(events, until=T0 + 10 * HOUR), T0, T0 + 3 * HOUR)
    assert figures(found).gpu_hours == 2
    assert (found.running, figures(found).jobs_completed) == (1, 0)


def test_a_journal_younger_than_the_window_is_not_taken_for_idleness():
    job = Story("1", T0).start(T0, [0, 1, 2, 3]).end(T0 + 10 * HOUR)
    numbers = figures(read(job, since=T0 - 7 * DAY))
    assert numbers.since == T0
    assert numbers.idle_percent == 0


def test_an_attempt_that_was_preempted_counts_as_use():
    job = Story("1", T0).start(T0).preempt(T0 + HOUR).start(T0 + 2 * HOUR).end(T0 + 3 * HOUR)
    found = read(job)
    assert figures(found).gpu_hours == 2
    assert figures(found).jobs_started == figures(found).preemptions == 1
    assert [run.state for run in found.runs] == [JobState.PREEMPTED, JobState.COMPLETED]


def test_failures_are_counted_by_cause_the_most_frequent_first():
    stories = [
        Story(str(n), T0).start(T0 + n).end(T0 + HOUR, JobState.FAILED, fault)
        for n, fault in enumerate([Fault.XID, Fault.USER_ERROR, Fault.USER_ERROR])
    ]
    numbers = figures(read(*stories))
    assert numbers.failures == (("user_error", 2), ("xid", 1))
    assert numbers.jobs_failed == 3


def test_tenants_stand_in_the_order_of_their_use():
    small = Story("1", T0, tenant="a").start(T0).end(T0 + HOUR)
    large = Story("2", T0, tenant="b").start(T0, [1, 2]).end(T0 + HOUR)
    cancelled = Story("3", T0, tenant="c").end(T0 + HOUR, JobState.CANCELLED)
    numbers = figures(read(small, large, cancelled))
    assert [each.tenant_id for each in numbers.tenants] == ["b", "a", "c"]
    assert numbers.tenants[2].cancelled == 1
    assert numbers.tenants[2].mean_wait_s is None


def test_one_tenant_can_be_looked_at_alone():
    stories = [Story(name, T0, tenant=name).start(T0).end(T0 + HOUR) for name in ("a", "b")]
    numbers = figures(read(*stories, tenant="a"))
    assert [each.tenant_id for each in numbers.tenants] == ["a"]
    assert numbers.gpu_hours == 1


def test_half_a_gpu_is_half_of_one():
    numbers = figures(read(Story("1", T0, 500).start(T0, millis=500).end(T0 + 2 * HOUR)))
    assert numbers.gpu_hours == 1


def test_gpus_that_come_later_are_no_idle_gpus_before():
    events = [*nodes(a_node("a", 2)), *nodes(a_node("b", 2), at=T0 + 5 * HOUR)]
    found = collect(a_journal(events, until=T0 + 10 * HOUR), T0, T0 + 10 * HOUR)
    assert capacity_ms(found) == 2 * 5 * HOUR + 4 * 5 * HOUR
    assert figures(found).gpus == 4


def test_a_journal_that_was_cut_off_says_so():
    found = collect(Journal("x", [header_line(exported_at=T0, last_seq=5)]), T0 - 1, T0)
    assert not found.is_whole


def test_a_journal_that_begins_in_the_middle_tells_the_same():
    stories = [
        Story(str(n), T0 + n).start(T0 + n * HOUR, [n % 4]).end(T0 + n * HOUR + 90 * 60_000)
        for n in range(1, 8)
    ]
    vision = TenantSet(T0, Tenant(TenantId("vision")))
    events = [vision, *nodes(a_node()), *in_order(*stories)]
    until, since = T0 + 10 * HOUR, T0 + 4 * HOUR
    lines = [line for line, _ in excerpt_lines(a_journal(events, until=until), since, None, None)]
    cut_off = Journal("cut", b"".join(lines).splitlines(keepends=True))
    assert cut_off.header.after > 0
    whole = figures(collect(a_journal(events, until=until), since, until))
    assert figures(collect(cut_off, since, until)) == whole


# -- over time -----------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 999, 60_000, HOUR, 7 * DAY, 400 * DAY, 40_000 * DAY])
def test_there_are_never_too_many_steps(length):
    step, steps = step_of(T0, T0 + length)
    assert 1 <= steps <= 180
    assert step * (steps - 1) < length <= step * steps


@pytest.mark.parametrize(
    ("since", "until", "means"),
    [
        (0, 4, [4, 0, 0]),
        (2, 8, [2, 4, 0]),
        (0, 10, [4, 4, 4]),
        (5, 6, [0, 1, 0]),
        (8, 10, [0, 0, 4]),
        (9, 10, [0, 0, 2]),
        (0, 999, [4, 4, 4]),
        (3, 3, [0, 0, 0]),
        (20, 30, [0, 0, 0]),
    ],
)
def test_an_amount_is_spread_over_the_steps_it_covers(monkeypatch, since, until, means):
    # Steps of 4: from 0, from 4, and a last one of 2.
    monkeypatch.setattr("tgpu.report.figures.step_of", lambda *_: (4, 3))
    series = Series(0, 10)
    series.add(since, until, 4)
    assert series.means() == means


def test_use_over_time_adds_up_to_the_use_in_all():
    stories = [
        Story(str(n), T0 + n * 1000).start(T0 + n * 700_000, [n % 4]).end(T0 + n * 700_000 + HOUR)
        for n in range(40)
    ]
    found = read(*stories, until=T0 + 9 * HOUR + 1234)
    by_gpu = use_by_gpu(found)
    step, steps = step_of(found.since, found.until)
    last = (found.until - found.since) - step * (steps - 1)
    lengths = [step] * (steps - 1) + [last]
    hours = sum(
        amount * length
        for row in by_gpu.values()
        for amount, length in zip(row, lengths, strict=True)
    )
    assert hours / HOUR == pytest.approx(figures(found).gpu_hours, abs=1e-3)


def test_a_gpu_that_nobody_used_has_a_row():
    assert use_by_gpu(read())["local", 3] == [0.0] * len(use_by_gpu(read())["local", 3])
    assert isinstance(read(), Collected)
