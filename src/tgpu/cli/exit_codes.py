"""The exit codes of `tgpu`, and how errors and job ends become one."""

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    OK = 0
    FAILURE = 1
    BAD_INPUT = 2
    NO_SERVICE = 3
    NO_SUCH_JOB = 4
    WRONG_STATE = 5
    MUST_RESTART = 70  # as app.MUST_RESTART has it
    TIMED_OUT = 124  # as timeout(1) has it
    INTERRUPTED = 130  # as shells have it: 128 + SIGINT


# Shown by `tgpu --help`, word for word.
MEANINGS: Final = {
    ExitCode.OK: "success",
    ExitCode.FAILURE: "failed, but not because of your input",
    ExitCode.BAD_INPUT: "bad input, or refused by the scheduler (a limit, a quota)",
    ExitCode.NO_SERVICE: "no scheduler answers, or it cannot handle the request now",
    ExitCode.NO_SUCH_JOB: "no such job, GPU or log",
    ExitCode.WRONG_STATE: "the job's state does not allow it",
    ExitCode.MUST_RESTART: "`serve` exited to restart from its database: start it again",
    ExitCode.TIMED_OUT: "`wait --timeout` ran out",
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C",
}

# 128 + SIGTERM: what a shell reports for a process that was asked to end. Not 130, so that a
# script can tell a cancelled job from an interrupted wait.
JOB_CANCELLED: Final = 143

_BY_CODE: Final = {
    "JOB_NOT_FOUND": ExitCode.NO_SUCH_JOB,
    "NOT_FOUND": ExitCode.NO_SUCH_JOB,
    "NO_LOG": ExitCode.NO_SUCH_JOB,
    "LOG_UNREADABLE": ExitCode.FAILURE,
    "CONFLICT": ExitCode.WRONG_STATE,
    "INVALID_STATE": ExitCode.WRONG_STATE,
    "DUPLICATE_JOB": ExitCode.WRONG_STATE,
    "NO_SERVICE": ExitCode.NO_SERVICE,
    "CONNECTION_LOST": ExitCode.NO_SERVICE,
    "BAD_ANSWER": ExitCode.NO_SERVICE,
    "UNAVAILABLE": ExitCode.NO_SERVICE,
    "SERVICE_NOT_READY": ExitCode.NO_SERVICE,
    "INTERNAL_ERROR": ExitCode.FAILURE,
}


def exit_code_of_error(code: str, status: int) -> ExitCode:
    """For an error answer; the HTTP status decides for codes that we do not know."""
    known = _BY_CODE.get(code)
    if known is not None:
        return known
    if status == 404:
        return ExitCode.NO_SUCH_JOB
    if status == 409:
        return ExitCode.WRONG_STATE
    if 400 <= status < 500:
        return ExitCode.BAD_INPUT
    return ExitCode.NO_SERVICE if status in (0, 502, 503, 504) else ExitCode.FAILURE


def exit_code_of_job(state: str, exit_code: int | None, signal: int | None) -> int:
    """What `wait` returns for a job that is over."""
    if state == "cancelled":
        return JOB_CANCELLED
    if exit_code:
        return exit_code & 0xFF or ExitCode.FAILURE
    if signal:
        return 128 + signal
    return ExitCode.OK if state == "completed" else ExitCode.FAILURE
