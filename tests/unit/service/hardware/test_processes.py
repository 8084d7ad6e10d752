"""Whose a process on a GPU is."""

from typing import Any

from tests.builders import a_job, a_node, a_state, end, entry_of, move, start
from tgpu.core.model import lifecycle
from tgpu.core.model.ids import JobId, NodeId
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.state.cluster_state import State
from tgpu.engines.api import AttemptKey, JobMark
from tgpu.engines.node_processes import Who
from tgpu.service.hardware.processes import Belongs, Claimed, Ownership

NODE = NodeId("n0")
KEY = AttemptKey("j1", 1)


def a_world() -> State:
    """Job j1 runs on GPU 0 as process 100."""
    state = a_state(a_job("j1"), nodes=[a_node("n0", gpus=2)])
    start(state, "j1", 0)
    running = lifecycle.run(JobId("j1"), entry_of(state, "j1").progress, 0, pid=100)
    move(state, "j1", Move.RUN, running)
    return state


def an_ownership() -> Ownership:
    return Ownership(log_dir=lambda key: f"/logs/{key.job_id}/{key.attempt}")


def a_who(pid: int, **facts: Any) -> Who:
    return Who(pid, **{"user": "ada", "command": "python", "started_at": 5, **facts})


def claim(ownership: Ownership, state: State, who: Who, gpu: int = 0) -> Claimed:
    ownership.begin(state, NODE, {who.pid: who})
    return ownership.claim(state, state.ledger.nodes[NODE], gpu, who)


def test_a_job_s_process_and_what_is_below_it_are_its_own() -> None:
    state, ownership = a_world(), an_ownership()
    assert claim(ownership, state, a_who(100)) == Claimed(Belongs.OURS, KEY)
    assert claim(ownership, state, a_who(200, ancestors=(150, 100, 1))).key == KEY


def test_a_process_that_carries_a_job_s_variables_is_its_own() -> None:
    for folder in ("/logs/j1/1", "/logs/j1/1/0"):
        who = a_who(200, mark=JobMark(KEY, folder))
        assert claim(an_ownership(), a_world(), who) == Claimed(Belongs.OURS, KEY)


def test_the_same_numbers_with_another_folder_are_another_service_s() -> None:
    for folder in ("/elsewhere/j1/1", "/logs/j1/12", "/logs/j1"):
        who = a_who(200, mark=JobMark(KEY, folder))
        assert claim(an_ownership(), a_world(), who) == Claimed(Belongs.FOREIGN)


def test_a_job_on_a_gpu_that_is_not_its_own_is_foreign_there() -> None:
    assert claim(an_ownership(), a_world(), a_who(100), gpu=1) == Claimed(Belongs.FOREIGN, KEY)


def test_what_outlives_its_job_is_known_though_its_ancestors_are_gone() -> None:
    state, ownership = a_world(), an_ownership()
    claim(ownership, state, a_who(200, ancestors=(100, 1)))
    end(state, "j1", JobState.COMPLETED)
    orphan = a_who(200, ancestors=(1,))
    assert claim(ownership, state, orphan) == Claimed(Belongs.SURVIVOR, KEY)


def test_a_number_that_was_given_again_is_another_process() -> None:
    state, ownership = a_world(), an_ownership()
    claim(ownership, state, a_who(200, ancestors=(100, 1)))
    end(state, "j1", JobState.COMPLETED)
    newcomer = a_who(200, started_at=6, ancestors=(1,))
    assert claim(ownership, state, newcomer) == Claimed(Belongs.FOREIGN)


def test_anybody_else_is_foreign_and_who_cannot_be_seen_unseen() -> None:
    state, ownership = a_world(), an_ownership()
    assert claim(ownership, state, a_who(300, ancestors=(1,))) == Claimed(Belongs.FOREIGN)
    assert claim(ownership, state, Who(300)) == Claimed(Belongs.UNSEEN)


def test_the_number_of_a_job_s_process_means_another_one_on_another_node() -> None:
    state = a_state(a_job("j1"), nodes=[a_node("n0", gpus=2), a_node("n1", gpus=2)])
    start(state, "j1", 0)
    running = lifecycle.run(JobId("j1"), entry_of(state, "j1").progress, 0, pid=100)
    move(state, "j1", Move.RUN, running)
    ownership, who = an_ownership(), a_who(100)
    placement = entry_of(state, "j1").progress.placement
    assert placement is not None
    for name in ("n0", "n1"):
        ownership.begin(state, NodeId(name), {100: who})
        found = ownership.claim(state, state.ledger.nodes[NodeId(name)], 0, who)
        assert found.key == (KEY if placement.node_id == name else None)
        ownership = an_ownership()
