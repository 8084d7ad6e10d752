import errno
import os
import subprocess
import sys

import pytest

from tgpu.engines.local import descriptors

_SHOW = "import resource; print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
_MODULE = "from tgpu.engines.local import descriptors as d; "


def _run(script: str, limits: tuple[int, int]) -> str:
    first = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, {limits}); "
    return subprocess.run(
        [sys.executable, "-c", first + script],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def test_the_limit_is_raised_for_us_and_restored_for_jobs() -> None:
    assert _run(f"{_MODULE}d.raise_limit(); {_SHOW}", (64, 256)).split() == ["256", "256"]
    both = f"{_MODULE}d.raise_limit(); d.restore(); {_SHOW}"
    assert _run(both, (64, 256)).split() == ["64", "256"]
    told = f"{_MODULE}d.raise_limit(100); d.restore(); {_SHOW}"
    assert _run(told, (256, 256)).split() == ["100", "256"]


def test_descriptors_are_closed_also_where_none_is_left_to_list_them() -> None:
    script = (
        f"{_MODULE}import os, contextlib\n"
        "kept = os.dup(1)\n"
        "with contextlib.suppress(OSError):\n"
        "    while True: os.dup(1)\n"
        "d.close_all_but({0, 1, 2, kept})\n"
        "print(sorted(set(map(int, os.listdir('/proc/self/fd')))) [:-1] == [0, 1, 2, kept])"
    )
    assert _run(script, (40, 40)).strip() == "True"


def test_what_is_scarce_is_waited_for_and_other_errors_are_not() -> None:
    answers = [errno.EMFILE, errno.ENFILE, None, errno.EACCES]

    def call() -> str:
        number = answers.pop(0)
        if number is not None:
            raise OSError(number, os.strerror(number))
        return "there"

    assert descriptors.patiently(call) == "there"
    with pytest.raises(PermissionError):
        descriptors.patiently(call)
