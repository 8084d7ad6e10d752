"""Who is in the way: no more than it takes, and where the job comes nearest to starting."""

from tests.builders import a_gpu, a_job, a_node, a_queue, a_state, a_tenant, start
from tests.unit.core.explain.worlds import ask
from tgpu.core.explain.blockers import Blocker
from tgpu.core.model.reasons import ReasonCode


def ids(found: tuple[Blocker, ...]) -> list[str]:
    return [blocker.job_id for blocker in found]


def test_those_are_named_whose_end_makes_room_and_who_end_first() -> None:
    state = a_state(
        a_job("late", time_limit_ms=9000),
        a_job("soon", time_limit_ms=1000, user="ann"),
        a_job("never"),
        a_job("j", gpus=2),
        nodes=[a_node(gpus=3)],
    )
    for index, job_id in enumerate(("late", "soon", "never")):
        start(state, job_id, index)
    blockers = ask(state).blockers
    assert ids(blockers) == ["soon", "late"]
    assert tuple(blockers[0]) == ("soon", "default", "ann", 1000, "n0", (1,), 1000, (("n0", 1),))


def test_who_ends_first_but_would_not_help_is_left_out() -> None:
    state = a_state(
        a_job("small", gpus=0.5, time_limit_ms=1000),
        a_job("large", gpus=2),
        a_job("j", gpus=2),
        nodes=[a_node(gpus=3)],
    )
    start(state, "small", 2, millis=500)
    start(state, "large", 0, 1)
    assert ids(ask(state).blockers) == ["large"]


def test_where_cores_are_short_those_who_have_them_are_named() -> None:
    state = a_state(
        a_job("a", cpus=6), a_job("b"), a_job("j", cpus=4), nodes=[a_node(gpus=4, cpus=8)]
    )
    start(state, "a", 0)
    start(state, "b", 1)
    assert ids(ask(state).blockers) == ["a"]


def test_where_gpus_are_paused_as_well_everybody_there_is_named() -> None:
    gpus = [a_gpu(0), a_gpu(1, paused="for repair")]
    state = a_state(a_job("a"), a_job("j", gpus=2), nodes=[a_node(gpus=gpus)])
    start(state, "a", 0)
    assert ids(ask(state).blockers) == ["a"]


def test_a_gang_is_told_who_has_the_gpus_on_all_its_nodes() -> None:
    state = a_state(
        a_job("a"),
        a_job("b"),
        a_job("j", gpus=4, workers=2),
        nodes=[a_node("n0", 2), a_node("n1", 2)],
    )
    start(state, "a", 0, node="n0")
    start(state, "b", 1, node="n1")
    blockers = ask(state).blockers
    assert [(one.job_id, one.node_id) for one in blockers] == [("a", "n0"), ("b", "n1")]


def test_for_a_quota_the_jobs_that_use_it_are_named() -> None:
    state = a_state(
        a_job("a"),
        a_job("other", "blue"),
        a_job("j"),
        tenants=[a_tenant(gpus=1), a_tenant("blue")],
    )
    start(state, "a", 0)
    start(state, "other", 1)
    assert ask(state).reason.code is ReasonCode.TENANT_QUOTA
    assert ids(ask(state).blockers) == ["a"]


def test_for_a_loan_the_jobs_of_the_borrowers_are_named() -> None:
    tenants = [a_tenant(gpus=1, cohort="lab"), a_tenant("other", gpus=0, cohort="lab")]
    state = a_state(a_job("a", "other"), a_job("j"), tenants=tenants)
    start(state, "a", 0)
    assert ask(state).reason.code is ReasonCode.QUOTA_LENT
    assert ids(ask(state).blockers) == ["a"]


def test_for_the_cap_of_a_queue_the_jobs_of_that_queue_are_named() -> None:
    state = a_state(
        a_job("a", queue="q"),
        a_job("b"),
        a_job("j", queue="q"),
        queues=[a_queue("q", max_running_jobs=1)],
    )
    start(state, "a", 0)
    start(state, "b", 1)
    assert ids(ask(state).blockers) == ["a"]


def test_for_a_dependency_the_jobs_it_waits_for_are_named() -> None:
    state = a_state(a_job("a"), a_job("j", after=("a",)))
    assert ids(ask(state).blockers) == ["a"]
