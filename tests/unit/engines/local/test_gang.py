"""The process that leads a gang, in a process of its own: it takes over signals and descriptors."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

_LEAD = (
    "import json, os, sys; from tgpu.engines.local import gang; "
    "gang.lead(json.loads(sys.argv[1]), os.pipe()[1])"
)


def led(argv: Sequence[str], workers: Sequence[dict[str, str]]) -> tuple[int, str]:
    """Exit code and output."""
    command = {"argv": argv, "env": dict(os.environ), "workers": workers, "grace_ms": 1000}
    ran = subprocess.run(
        [sys.executable, "-I", "-c", _LEAD, json.dumps(command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return ran.returncode, ran.stdout


def test_arguments_reach_the_command_as_they_are() -> None:
    show = "import json, sys; print(json.dumps(sys.argv[1:]))"
    words = ["a b", "$X", "--", "-I", "\u00e9"]
    code, out = led([sys.executable, "-c", show, *words], [{"RANK": "0"}])
    assert (code, json.loads(out)) == (0, words)


@pytest.mark.parametrize(("codes", "wanted"), [("00", 0), ("07", 7), ("30", 3)])
def test_the_exit_code_is_that_of_the_one_that_failed(codes: str, wanted: int) -> None:
    assert led(["sh", "-c", "exit $CODE"], [{"CODE": code} for code in codes])[0] == wanted


def test_a_command_that_cannot_be_run_is_126() -> None:
    code, out = led(["/etc/passwd"], [{"RANK": "0"}, {"RANK": "1"}])
    assert code == 126
    assert "worker 0 could not be started: /etc/passwd: permission denied" in out


def test_workers_get_no_descriptors_but_the_standard_ones() -> None:
    code, out = led(["sh", "-c", "ls /proc/$$/fd"], [{"RANK": "0"}])
    assert (code, out.split()) == (0, ["0", "1", "2"])


def test_a_line_without_an_end_is_passed_on_when_it_is_long() -> None:
    script = "import sys; sys.stdout.write('x' * 300_000)"
    code, out = led([sys.executable, "-c", script], [{"RANK": "0"}])
    assert (code, out) == (0, "x" * 300_000 + "\n")
