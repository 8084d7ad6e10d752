"""The jobs file of a real service: edited while it runs, while it is dead, and as it is killed."""

import os
import time
from functools import partial
from pathlib import Path

import pytest

from tests.integration.crash.conftest import StartService
from tests.real_service import Json, RealService, eventually

SCRIPT = """\
import sys
with open({out!r}, "a") as out:
    out.write(" ".join(sys.argv[1:]) + "\\n")
sys.exit(int(open({code!r}).read()))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "jobs"
    made.mkdir()
    (made / "code").write_text("0")
    script = SCRIPT.format(out=str(made / "out"), code=str(made / "code"))
    (made / "x.py").write_text(script)
    return made


def settings(folder: Path, **jobs: float) -> dict[str, dict[str, object]]:
    return {
        "files": {"jobs_file": str(folder / "jobs.txt"), "monitor_interval_s": 3600},
        "jobs": {"assignment_retry_wait_s": 0.2, **jobs},
    }


def ran(folder: Path) -> list[str]:
    out = folder / "out"
    return sorted(out.read_text().splitlines()) if out.exists() else []


def add(folder: Path, *numbers: int) -> None:
    with (folder / "jobs.txt").open("a") as file:
        file.writelines(f"1,x.py,,--n {number},\n" for number in numbers)


def lines(service: RealService) -> list[Json]:
    found: list[Json] = service.get("/jobs-file")["lines"]
    return found


def over(service: RealService, count: int) -> bool:
    found = lines(service)
    return len(found) == count and all(line["state"] in ("completed", "failed") for line in found)


def taken(service: RealService, count: int) -> bool:
    return len(service.get("/jobs?limit=1000")["jobs"]) >= count


def test_lines_are_queued_as_they_are_written_and_none_of_them_twice(
    start: StartService, folder: Path
) -> None:
    service = start(settings=settings(folder))
    expected: list[str] = []
    for number in range(4):
        add(folder, number)
        expected.append(f"--n {number}")
        eventually(lambda: ran(folder) == expected, f"line {number} to run")
    eventually(lambda: over(service, 4), "all to be over")
    assert ran(folder) == expected
    assert [line["tries"] for line in lines(service)] == [1, 1, 1, 1]


def test_a_service_killed_again_and_again_runs_every_line_once(
    start: StartService, folder: Path
) -> None:
    service = start(settings=settings(folder))
    for life in range(4):
        add(folder, *range(life * 10, life * 10 + 10))
        # Before, while and after the lines are taken.
        eventually(partial(taken, service, life * 11 + life * 3), "some of the lines to be taken")
        service.kill()
        add(folder, 100 + life)
        service.start()
    wanted = sorted(f"--n {n}" for n in [*range(40), 100, 101, 102, 103])
    eventually(lambda: over(service, 44), "all to be over", 60)
    assert ran(folder) == wanted
    jobs = service.get("/jobs?limit=1000")["jobs"]
    assert len(jobs) == 44


def test_a_failed_line_is_tried_again_when_saved_and_a_completed_one_is_not(
    start: StartService, folder: Path
) -> None:
    service = start(settings=settings(folder))
    (folder / "code").write_text("3")
    add(folder, 1)
    eventually(lambda: over(service, 1), "the first try to fail")
    assert lines(service)[0]["state"] == "failed"
    (folder / "code").write_text("0")
    soon = time.time() + 2  # a save as any editor makes it, only surely later than the failure
    os.utime(folder / "jobs.txt", (soon, soon))
    eventually(lambda: lines(service)[0]["state"] == "completed", "the second try")
    later = soon + 2
    os.utime(folder / "jobs.txt", (later, later))
    service.restart()
    add(folder, 2)
    eventually(lambda: over(service, 2), "the other line")
    assert ran(folder) == ["--n 1", "--n 1", "--n 2"]
    assert [line["tries"] for line in lines(service)] == [2, 1]


def test_bad_lines_are_told_and_stop_nothing(start: StartService, folder: Path) -> None:
    (folder / "jobs.txt").write_text("7,x.py\n1,missing.py\n1,x.py,,--n 3,0\n")
    service = start(settings=settings(folder))
    eventually(lambda: ran(folder) == ["--n 3"], "the good line to run")
    problems = service.get("/health")["problems"]
    assert ["line 1" in problems[0], "line 2" in problems[1]] == [True, True]
    assert "line 1" in service.log_text()


def test_the_documents_jobs_and_sizes_make_the_jobs_it_says(
    start: StartService, folder: Path
) -> None:
    (folder / "llm.json").write_text(
        '{"default_requirement": 1.0, "models": {"qwen2.5-3b-inst": 0.5}}'
    )
    (folder / "cuda.py").write_text(
        "import argparse\n"
        "parser = argparse.ArgumentParser()\n"
        'parser.add_argument("--cuda")\n'
        'parser.add_argument("--llm")\n'
        "given = parser.parse_args()\n"
        f'open({str(folder / "out")!r}, "a").write(f"{{given.cuda}} {{given.llm}}\\n")\n'
    )
    (folder / "jobs.txt").write_text("0,cuda.py,,--llm qwen2.5-3b-inst --cuda 0,2-3\n")
    with_sizes = settings(folder)
    with_sizes["files"]["llm_config_file"] = str(folder / "llm.json")
    service = start(settings=with_sizes)
    eventually(lambda: over(service, 1), "it to be over")
    job = service.job("1")
    assert (job["gpu_count"], job["priority"], job["state"]) == (0.5, 1500, "completed")
    assert job["gpus"] == [2]
    assert ran(folder) == ["2 qwen2.5-3b-inst"]
