import os
import subprocess

from gpu_scheduler.engines.local.loop import Loop
from gpu_scheduler.engines.local.processes import start_time


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
