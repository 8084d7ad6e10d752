"""What the documentation and the examples show of the client, run against a real service."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_service import RealService

pytestmark = pytest.mark.external

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "howto" / "python.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
SAID = {
    0: "completed 0\nhello\n",
    1: "2 of 4 failed\n",
    2: "",
    3: "JOB_NOT_FOUND ",
    4: "job_submitted pending",
    5: "{'completed'}\n",
    6: "2.0\n0.0\n",
    7: "'completed': 1",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[RealService]:
    with RealService(tmp_path_factory.mktemp("documents")) as running:
        yield running.start()


def run(service: RealService, cwd: Path, *arguments: str) -> str:
    environ = {**os.environ, "TGPU_URL": service.url, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_every_block_of_the_page_is_expected_to_say_something():
    assert len(BLOCKS) == len(SAID)


@pytest.mark.parametrize("number", SAID)
def test_the_code_on_the_page_runs(number, service, tmp_path):
    assert SAID[number] in run(service, tmp_path, "-c", BLOCKS[number])


def test_the_sweep_ranks_its_jobs(service, tmp_path):
    shown = run(service, tmp_path, str(ROOT / "examples" / "client_sweep.py")).splitlines()
    assert len(shown) == 3
    assert all(re.fullmatch(r"rate 0\.\d+: accuracy 0\.\d{3}", line) for line in shown)


def test_the_follower_goes_on_where_it_was(service, tmp_path):
    script = [str(ROOT / "examples" / "client_events.py"), "--count"]
    first = run(service, tmp_path, *script, "2").splitlines()
    second = run(service, tmp_path, *script, "2").splitlines()
    at_once = run(service, tmp_path, *script, "4", "--place", "other.txt").splitlines()
    assert first + second == at_once
