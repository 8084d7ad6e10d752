"""How many jobs of /bin/true a second go from queued to recorded exit, end to end.

Beside it, on the same machine in the same run: a C loop of posix_spawn and `xargs -P`, each with a
log file a job and nothing else, and task-spooler where it is installed. Ratios count, rates do not.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import httpx

from benchmarks.real_service import RunningService, running_service

_C_LOOP = r"""
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
extern char **environ;
int main(int count_of_arguments, char **arguments) {
    (void)count_of_arguments;
    int jobs = atoi(arguments[1]), at_once = atoi(arguments[2]), running = 0;
    char *argv[] = {"/bin/true", NULL};
    char name[64];
    for (int i = 0; i < jobs; i++) {
        if (running == at_once) { wait(NULL); running--; }
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        snprintf(name, sizeof name, "log.%d", i);
        posix_spawn_file_actions_addopen(&actions, 1, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        pid_t pid;
        if (posix_spawn(&pid, argv[0], &actions, NULL, argv, environ)) return 1;
        posix_spawn_file_actions_destroy(&actions);
        running++;
    }
    while (wait(NULL) > 0) {}
    return 0;
}
"""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="fewer jobs and rounds")
    options = parser.parse_args(argv)
    jobs, rounds = (500, 2) if options.quick else (options.jobs, options.rounds)
    loops = [loop for loop in (_CLoop(), _Xargs(), _TaskSpooler()) if loop.is_there()]
    ours: list[float] = []
    theirs: dict[str, list[float]] = {loop.name: [] for loop in loops}
    with running_service("sim:32xA100") as service:
        _tgpu(service, 50)  # runners are forked on demand: let them be there
        for _ in range(rounds):
            ours.append(_tgpu(service, jobs))
            for loop in loops:
                theirs[loop.name].append(loop.rate(loop.fewer(jobs)))
    rate = statistics.median(ours)
    print(f"launch: tgpu {rate:,.0f} jobs/s (median of {rounds} x {jobs:,})")
    best = {name: statistics.median(rates) for name, rates in theirs.items()}
    for name, reference in best.items():
        print(f"launch: {name} {reference:,.0f}/s; ratio {rate / reference:.2f}")
    return 0 if rate >= best["xargs -P2"] / 2 else 1


def _tgpu(service: RunningService, jobs: int) -> float:
    with httpx.Client(base_url=f"{service.url}/api/v1", timeout=60) as client:
        done = client.get("/cluster/status").json()["jobs_by_state"]["completed"]
        body = {"command": ["/bin/true"], "array": {"indexes": f"1-{jobs}"}}
        began = time.perf_counter()
        client.post("/jobs", json=body).raise_for_status()
        while True:
            status = client.get("/cluster/status").json()["jobs_by_state"]
            if status["completed"] - done >= jobs:
                return jobs / (time.perf_counter() - began)
            if status["failed"]:
                raise SystemExit(f"jobs failed: {status}")
            time.sleep(0.1)


class _CLoop:
    name = "C posix_spawn, 2 at once"

    def is_there(self) -> bool:
        return shutil.which("gcc") is not None

    def fewer(self, jobs: int) -> int:
        return jobs

    def rate(self, jobs: int) -> float:
        with tempfile.TemporaryDirectory() as directory:
            source, program = Path(directory, "loop.c"), Path(directory, "loop")
            source.write_text(_C_LOOP)
            subprocess.run(["gcc", "-O2", "-o", str(program), str(source)], check=True)
            return jobs / _timed([str(program), str(jobs), "2"], directory)


class _Xargs:
    name = "xargs -P2"

    def is_there(self) -> bool:
        return True

    def fewer(self, jobs: int) -> int:
        return jobs

    def rate(self, jobs: int) -> float:
        with tempfile.TemporaryDirectory() as directory:
            numbers = "\n".join(str(number) for number in range(jobs))
            command = ["xargs", "-P2", "-I{}", "sh", "-c", "/bin/true > log.{}"]
            return jobs / _timed(command, directory, numbers)


class _TaskSpooler:
    name = "task-spooler"

    def is_there(self) -> bool:
        return shutil.which("tsp") is not None

    def fewer(self, jobs: int) -> int:
        return min(jobs, 500)  # it forks a client for each job, and slows as its list grows

    def rate(self, jobs: int) -> float:
        with tempfile.TemporaryDirectory() as directory:
            environment = {**os.environ, "TS_SOCKET": f"{directory}/socket", "TMPDIR": directory}

            def tsp(*arguments: str) -> None:
                subprocess.run(
                    ["tsp", *arguments], check=True, env=environment, stdout=subprocess.DEVNULL
                )

            tsp("-S", "2")
            began = time.perf_counter()
            for _ in range(jobs):
                tsp("/bin/true")
            tsp("-w")
            elapsed = time.perf_counter() - began
            tsp("-K")
            return jobs / elapsed


def _timed(command: list[str], directory: str, text: str = "") -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=directory, input=text, text=True, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    raise SystemExit(main())
