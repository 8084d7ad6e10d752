"""The line: heads in order, and queues with an order of their own."""

from tests.builders import a_job, a_queue, a_state
from tgpu.core.model.ids import JobId
from tgpu.core.policies.fifo import Fifo
from tgpu.core.policies.priority import PriorityWithAging
from tgpu.core.stages.queue_order import QueueOrder
from tgpu.core.state.cluster_state import State


def order_of(state: State, skip: frozenset[JobId] = frozenset()) -> list[str]:
    own = {"priority": PriorityWithAging().at(state, 0)}
    lines = QueueOrder(state.ledger, Fifo().at(state, 0), own, state.waiting.classes(), skip)
    found: list[str] = []
    while (following := lines.next()) is not None:
        line, head = following
        found.append(head.key[2])
        line.advance(head)
    assert not lines.has_more()
    return found


def test_classes_are_merged_by_age() -> None:
    jobs = [a_job(f"j{n}", gpus=1 + n % 2, submitted_at=n) for n in range(4)]
    assert order_of(a_state(*jobs)) == ["j0", "j1", "j2", "j3"]


def test_jobs_that_are_served_elsewhere_are_left_out() -> None:
    jobs = [a_job(f"j{n}", submitted_at=n) for n in range(4)]
    assert order_of(a_state(*jobs), frozenset(map(JobId, ("j0", "j2")))) == ["j1", "j3"]


def test_a_higher_queue_stands_before_all_others() -> None:
    jobs = [a_job("old"), a_job("high", queue="high", submitted_at=9)]
    assert order_of(a_state(*jobs, queues=[a_queue("high", priority=1)])) == ["high", "old"]


def test_the_best_of_a_queue_says_where_it_stands_and_its_own_order_who_is_served() -> None:
    jobs = [
        a_job("first", queue="own", priority=1),
        a_job("second", submitted_at=1),
        a_job("third", queue="own", priority=9, submitted_at=2),
    ]
    state = a_state(*jobs, queues=[a_queue("own", policy="priority")])
    assert order_of(state) == ["third", "first", "second"]


def test_what_is_dropped_is_dropped_with_its_class() -> None:
    state = a_state(a_job("a"), a_job("b", submitted_at=1), a_job("c", gpus=2, submitted_at=2))
    lines = QueueOrder(state.ledger, Fifo().at(state, 0), {}, state.waiting.classes(), frozenset())
    following = lines.next()
    assert following is not None
    line, head = following
    line.drop(head)
    following = lines.next()
    assert following is not None
    assert following[1].key[2] == "c"
