"""What jobs wrote down themselves while they ran, and what must be true of it.

Each job appends a line when it starts and when it ends. What the scheduler says is compared with
these lines, which no part of it has written.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# The clock of all jobs is the kernel's, read without starting a process; 10 ms is its step. One
# line is one write, and appending is atomic.
_WRITE = (
    "read now idle < /proc/uptime;"
    ' echo "$TGPU_JOB_ID $TGPU_ATTEMPT $CUDA_VISIBLE_DEVICES {what} $now" >> ledger'
)
START = _WRITE.format(what="start")
END = _WRITE.format(what="end")


@dataclass(frozen=True, slots=True)
class Line:
    job_id: str
    attempt: int
    gpus: tuple[int, ...]
    what: str
    at: float


@dataclass(frozen=True, slots=True)
class Promise:
    """What a submitted job must come to."""

    exit_code: int
    runs: int = 1
    signal: int | None = None
    asked_to_end: bool = False  # cancelled, whether or not that was acknowledged
    cancelled: bool = False  # and acknowledged
    watched: bool = True  # nobody killed the runner beside it, so its end must be known

    def allows(self, job: Mapping[str, Any]) -> bool:
        """Whether this is one of the ends that it may come to."""
        if job["state"] == "cancelled":
            return self.asked_to_end
        if self.cancelled:
            return False
        if (job["exit_code"], job["signal"]) == (self.exit_code, self.signal):
            return bool(job["state"] == ("failed" if self.exit_code else "completed"))
        lost = job["exit_code"] is None and "exit code was lost" in (job["cause"] or "")
        return not self.watched and job["state"] == "failed" and lost

    @property
    def must_run(self) -> bool:
        """Whether it must run, and run to its end, as often as promised."""
        return self.watched and not self.asked_to_end


Jobs = Mapping[str, Mapping[str, Any]]


def parse(lines: Iterable[str]) -> list[Line]:
    found = []
    for line in lines:
        job_id, attempt, gpus, what, at = line.split()
        indexes = tuple(int(index) for index in gpus.split(","))
        found.append(Line(job_id, int(attempt), indexes, what, float(at)))
    return found


def broken_promises(promises: Mapping[str, Promise], jobs: Jobs, ledger: list[Line]) -> list[str]:
    """Every way in which the history is not what was promised; empty when all is well."""
    return [
        *_wrong_ends(promises, jobs),
        *_wrong_runs(promises, jobs, ledger),
        *_shared_gpus(ledger),
    ]


def _wrong_ends(promises: Mapping[str, Promise], jobs: Jobs) -> Iterable[str]:
    for job_id, promise in promises.items():
        job = jobs.get(job_id)
        if job is None:
            yield f"{job_id} was acknowledged and does not exist"
        elif not promise.allows(job):
            end = (job["state"], job["exit_code"], job["signal"], job["cause"])
            yield f"{job_id} ended as {end} and not as {promise}"


def _wrong_runs(promises: Mapping[str, Promise], jobs: Jobs, ledger: list[Line]) -> Iterable[str]:
    lines: dict[tuple[str, int], list[str]] = defaultdict(list)
    for line in ledger:
        lines[line.job_id, line.attempt].append(line.what)
    runs: dict[str, int] = defaultdict(int)
    for (job_id, attempt), whats in lines.items():
        runs[job_id] += 1
        cut_short = whats == ["start"] and promises[job_id].asked_to_end
        if whats != ["start", "end"] and not cut_short:
            yield f"attempt {attempt} of {job_id} did {whats}"
        newest = jobs[job_id]["attempt"] if job_id in jobs else 0
        if not 1 <= attempt <= newest:
            yield f"attempt {attempt} of {job_id} ran, and its newest is said to be {newest}"
    for job_id, promise in promises.items():
        if runs[job_id] > promise.runs or (promise.must_run and runs[job_id] < promise.runs):
            yield f"{job_id} ran {runs[job_id]} times and not {promise.runs}"


def _shared_gpus(ledger: list[Line]) -> Iterable[str]:
    """Attempts that were cut short said nothing of their end, and are left out."""
    ends = {(line.job_id, line.attempt): line.at for line in ledger if line.what == "end"}
    starts = [line for line in ledger if line.what == "start"]
    until: dict[int, tuple[float, str]] = {}
    for line in sorted(starts, key=lambda line: line.at):
        end = ends.get((line.job_id, line.attempt), line.at)
        for gpu in line.gpus:
            busy_until, holder = until.get(gpu, (0.0, ""))
            if line.at < busy_until:
                yield f"GPU {gpu} was given to {line.job_id} while {holder} had it"
            until[gpu] = max(until.get(gpu, (0.0, "")), (end, line.job_id))
