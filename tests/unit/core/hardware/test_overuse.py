"""Memory shares on shared GPUs: who is over, and what follows when."""

import pytest

from tgpu.core.hardware.overuse import (
    WITHIN,
    OveruseAction,
    OveruseRules,
    Verdict,
    judge,
    memory_share_mib,
)
from tgpu.core.model.job import Request
from tgpu.core.model.node import Share

END = OveruseRules(OveruseAction.END, grace_ms=60_000)


@pytest.mark.parametrize(
    ("request_", "share", "mib"),
    [
        (Request(250), Share(0, 250), 20_000),
        (Request(250, gpu_mem_mib=5_000), Share(0, 250), 5_000),
        (Request(1500, gpu_mem_mib=30_000), Share(1, 500), 10_000),
        (Request(500, gpu_mem_mib=900_000), Share(0, 500), 80_000),
        (Request(1000), Share(0, 1000), None),
        (Request(1500), Share(0, 1000), None),
    ],
    ids=["fraction", "memory", "its part of the memory", "no more than there is", "whole", "mixed"],
)
def test_the_share_of_a_gpus_memory(request_: Request, share: Share, mib: int | None) -> None:
    assert memory_share_mib(request_, share, 80_000) == mib


def test_a_job_within_its_share_is_fine() -> None:
    assert judge(WITHIN, False, 0, END).verdict is Verdict.FINE


def test_one_beyond_it_is_warned_once_and_ended_after_the_grace() -> None:
    warned = judge(WITHIN, True, 1_000, END)
    assert warned.verdict is Verdict.WARN
    later = judge(warned, True, 60_999, END)
    assert later.verdict is Verdict.WARNED
    assert judge(later, True, 61_000, END).verdict is Verdict.END


def test_one_that_gave_the_memory_back_begins_anew() -> None:
    warned = judge(WITHIN, True, 0, END)
    assert judge(judge(warned, False, 1, END), True, 70_000, END).verdict is Verdict.WARN


@pytest.mark.parametrize(
    ("action", "verdict"),
    [(OveruseAction.OFF, Verdict.FINE), (OveruseAction.WARN, Verdict.WARNED)],
)
def test_nothing_ends_unless_asked_for(action: OveruseAction, verdict: Verdict) -> None:
    rules = OveruseRules(action, grace_ms=0)
    assert judge(judge(WITHIN, True, 0, rules), True, 1_000_000, rules).verdict is verdict
