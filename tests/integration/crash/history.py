"""What jobs wrote down themselves while they ran, and what must be true of it.

Each job appends a line when it starts and when it ends. What the scheduler says is compared with
these lines, which no part of it has written.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Runs in the directory of the ledger. One line is one write, and appending is atomic.
START = 'echo "$TGPU_JOB_ID $TGPU_ATTEMPT $CUDA_VISIBLE_DEVICES start $(date +%s%N)" >> ledger'
END = 'echo "$TGPU_JOB_ID $TGPU_ATTEMPT $CUDA_VISIBLE_DEVICES end $(date +%s%N)" >> ledger'


@dataclass(frozen=True, slots=True)
class Line:
    job_id: str
    attempt: int
    gpus: tuple[int, ...]
    what: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class Promise:
    """What a submitted job must come to."""

    exit_code: int
    runs: int = 1
    signal: int | None = None

    @property
    def state(self) -> str:
        return "failed" if self.exit_code else "completed"


def parse(lines: Iterable[str]) -> list[Line]:
    found = []
    for line in lines:
        job_id, attempt, gpus, what, at_ns = line.split()
        indexes = tuple(int(index) for index in gpus.split(","))
        found.append(Line(job_id, int(attempt), indexes, what, int(at_ns)))
    return found


def broken_promises(
    promises: Mapping[str, Promise], jobs: Mapping[str, Mapping[str, Any]], ledger: list[Line]
) -> list[str]:
    """Every way in which the history is not what was promised; empty when all is well."""
    return [
        *_wrong_ends(promises, jobs),
        *_wrong_runs(promises, jobs, ledger),
        *_shared_gpus(ledger),
    ]


def _wrong_ends(
    promises: Mapping[str, Promise], jobs: Mapping[str, Mapping[str, Any]]
) -> Iterable[str]:
    for job_id, promise in promises.items():
        job = jobs.get(job_id)
        if job is None:
            yield f"{job_id} was acknowledged and does not exist"
            continue
        end = (job["state"], job["exit_code"], job["signal"])
        if end != (promise.state, promise.exit_code, promise.signal):
            yield f"{job_id} ended as {end} ({job['cause']}) and not as {promise}"


def _wrong_runs(
    promises: Mapping[str, Promise], jobs: Mapping[str, Mapping[str, Any]], ledger: list[Line]
) -> Iterable[str]:
    lines: dict[tuple[str, int], list[str]] = defaultdict(list)
    for line in ledger:
        lines[line.job_id, line.attempt].append(line.what)
    runs: dict[str, int] = defaultdict(int)
    for (job_id, attempt), whats in lines.items():
        runs[job_id] += 1
        if whats != ["start", "end"]:
            yield f"attempt {attempt} of {job_id} did {whats}"
        newest = jobs[job_id]["attempt"] if job_id in jobs else 0
        if not 1 <= attempt <= newest:
            yield f"attempt {attempt} of {job_id} ran, and its newest is said to be {newest}"
    for job_id, promise in promises.items():
        if runs[job_id] != promise.runs:
            yield f"{job_id} ran {runs[job_id]} times and not {promise.runs}"


def _shared_gpus(ledger: list[Line]) -> Iterable[str]:
    holder: dict[int, Line] = {}
    for line in sorted(ledger, key=lambda line: line.at_ns):
        for gpu in line.gpus:
            held = holder.get(gpu)
            if line.what == "end":
                if held is not None and held.job_id == line.job_id:
                    del holder[gpu]
            elif held is not None:
                yield f"GPU {gpu} was given to {line.job_id} while {held.job_id} had it"
            else:
                holder[gpu] = line
