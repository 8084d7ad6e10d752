"""Limits on a process, tried in one of its own: they cannot be taken back."""

import subprocess
import sys

import pytest


def limits_after(before: str, limits: dict[str, int | None]) -> str:
    code = (
        "import resource as r\n"
        "from tgpu.engines.local.limits import apply\n"
        f"{before}\n"
        f"apply({limits!r})\n"
        "print(*(r.getrlimit(k) for k in (r.RLIMIT_DATA, r.RLIMIT_CPU, r.RLIMIT_NOFILE)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"memory_bytes": 2**30}, "(1073741824, 1073741824)"),
        ({"cpu_seconds": 60}, "(60, 60)"),
        ({"open_files": 100}, "(100, 100)"),
    ],
)
def test_a_limit_is_set_for_good(limits, expected):
    assert expected in limits_after("", limits)


def test_a_stricter_limit_stays():
    before = "r.setrlimit(r.RLIMIT_NOFILE, (50, 60))"
    assert "(60, 60)" in limits_after(before, {"open_files": 100})


def test_what_is_not_limited_is_left_as_it_is():
    assert limits_after("", {"memory_bytes": None}) == limits_after("", {})
