"""Waiting for something that another thread or process brings about, within a bound."""

import time
from collections.abc import Callable


def eventually(holds: Callable[[], bool], within_seconds: float = 20.0) -> None:
    deadline = time.monotonic() + within_seconds
    while not holds():
        assert time.monotonic() < deadline, f"did not come true in {within_seconds:g} s"
        time.sleep(0.02)
