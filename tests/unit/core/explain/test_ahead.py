"""Who comes before a job in the order."""

from tests.builders import a_job, a_queue, a_state, entry_of
from tgpu.core.explain.ahead import ahead_of
from tgpu.core.policies.fifo import Fifo
from tgpu.core.policies.priority import PriorityWithAging
from tgpu.core.policies.slots import OrderPolicy
from tgpu.core.state.cluster_state import State


def ahead(state: State, job_id: str = "j", **orders: OrderPolicy) -> tuple[int, tuple[str, ...]]:
    return ahead_of(state, entry_of(state, job_id), 0, Fifo(), orders)


def test_older_jobs_are_counted_and_the_next_ones_named() -> None:
    jobs = [a_job(f"a{n}", gpus=1 + n % 2, submitted_at=n) for n in range(8)]
    state = a_state(*jobs, a_job("j", submitted_at=7), a_job("k", submitted_at=9))
    assert ahead(state) == (8, ("a0", "a1", "a2", "a3", "a4"))
    assert ahead(state, "a0") == (0, ())


def test_a_higher_queue_comes_first_whatever_the_age() -> None:
    state = a_state(
        a_job("j"), a_job("k", queue="vip", submitted_at=5), queues=[a_queue("vip", priority=1)]
    )
    assert ahead(state) == (1, ("k",))


def test_inside_a_queue_with_an_order_of_its_own_that_order_counts() -> None:
    state = a_state(
        a_job("j", queue="q", priority=900, submitted_at=5),
        a_job("k", queue="q", priority=1),
        queues=[a_queue("q", policy="priority")],
    )
    assert ahead(state)[0] == 1
    assert ahead(state, priority=PriorityWithAging())[0] == 0
