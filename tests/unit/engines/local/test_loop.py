import errno
import os
import subprocess

import pytest

from tgpu.engines.local import loop as loop_module
from tgpu.engines.local.loop import Loop
from tgpu.engines.local.processes import CannotTell, start_time


def test_timers_fire_in_the_order_of_their_times() -> None:
    loop, fired = Loop(), list[int]()
    loop.call_later(0.002, lambda: fired.append(2))
    loop.call_later(0.001, lambda: fired.append(1))
    while len(fired) < 2:
        loop.turn(wait=True)
    assert fired == [1, 2]


def test_a_cancelled_timer_does_not_fire() -> None:
    loop, fired = Loop(), list[int]()
    loop.cancel(loop.call_later(0, lambda: fired.append(1)))
    loop.call_later(0.001, lambda: fired.append(2))
    while not fired:
        loop.turn(wait=True)
    assert fired == [2]


def test_cancelled_timers_do_not_pile_up() -> None:
    loop = Loop()
    for _ in range(1_000):
        loop.cancel(loop.call_later(3600, lambda: None))
    assert len(loop._timers) < 300


def test_the_end_of_a_process_is_told_once() -> None:
    loop, ends = Loop(), list[int]()
    process = subprocess.Popen(["sleep", "60"])
    loop.watch_process(process.pid, start_time(process.pid), lambda: ends.append(1))
    loop.turn(wait=False)
    assert ends == []
    process.kill()
    while not ends:
        loop.turn(wait=True)
    process.wait()
    loop.turn(wait=False)
    assert ends == [1]


def test_a_process_that_is_another_by_now_counts_as_ended() -> None:
    loop, ends = Loop(), list[int]()
    loop.watch_process(os.getpid(), 1, lambda: ends.append(1))
    loop.turn(wait=True)
    assert ends == [1]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EPERM, errno.ENOSYS])
def test_a_process_without_a_descriptor_for_it_is_watched_all_the_same(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pidfd_open", fail)
    monkeypatch.setattr(loop_module, "ASK_AGAIN_SECONDS", 0.001)
    loop, ends = Loop(), list[int]()
    with subprocess.Popen(["sleep", "60"]) as process:
        loop.watch_process(process.pid, start_time(process.pid), lambda: ends.append(1))
        for _ in range(5):
            loop.turn(wait=True)
        assert ends == []
        process.kill()
        while not ends:
            loop.turn(wait=True)
    assert ends == [1]


def test_a_process_that_cannot_be_looked_at_is_not_over(monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = CannotTell("it", OSError(errno.EMFILE, "no"))
    answers: list[CannotTell | bool] = [trouble, trouble, True, trouble, False]

    def is_alive(*_: object) -> bool:
        answer = answers.pop(0)
        if isinstance(answer, CannotTell):
            raise answer
        return answer

    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, "no")

    monkeypatch.setattr(os, "pidfd_open", fail)
    monkeypatch.setattr(loop_module, "is_alive", is_alive)
    monkeypatch.setattr(loop_module, "ASK_AGAIN_SECONDS", 0.001)
    loop, left = Loop(), list[int]()
    loop.watch_process(1, 1, lambda: left.append(len(answers)))
    while not left:
        loop.turn(wait=True)
    assert left == [0]


def test_what_cannot_be_told_is_asked_again_and_said_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loop_module, "ASK_AGAIN_SECONDS", 0.001)
    loop, calls = Loop(), list[int]()

    def ask() -> None:
        calls.append(1)
        if len(calls) < 4:
            raise CannotTell("the record", OSError(errno.EMFILE, "too many"))

    loop.when_known(ask)
    while len(calls) < 4:
        loop.turn(wait=True)
    assert capfd.readouterr().err == "the record: too many; asked again later\n"
