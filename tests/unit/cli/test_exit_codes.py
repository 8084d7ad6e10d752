import pytest

from tgpu.cli.exit_codes import ExitCode, exit_code_of_error, exit_code_of_job


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("VALIDATION_ERROR", 422, ExitCode.BAD_INPUT),
        ("QUOTA_EXCEEDED", 422, ExitCode.BAD_INPUT),
        ("JOB_NOT_FOUND", 404, ExitCode.NO_SUCH_JOB),
        ("CONFLICT", 409, ExitCode.WRONG_STATE),
        ("INVALID_STATE", 400, ExitCode.WRONG_STATE),
        ("UNAVAILABLE", 503, ExitCode.NO_SERVICE),
        ("NO_SERVICE", 0, ExitCode.NO_SERVICE),
        ("INTERNAL_ERROR", 500, ExitCode.FAILURE),
        ("NEW_ONE", 404, ExitCode.NO_SUCH_JOB),
        ("NEW_ONE", 409, ExitCode.WRONG_STATE),
        ("NEW_ONE", 418, ExitCode.BAD_INPUT),
        ("NEW_ONE", 502, ExitCode.NO_SERVICE),
        ("NEW_ONE", 500, ExitCode.FAILURE),
    ],
)
def test_every_error_has_an_exit_code(code, status, expected):
    assert exit_code_of_error(code, status) == expected


@pytest.mark.parametrize(
    ("state", "exit_code", "signal", "expected"),
    [
        ("completed", 0, None, 0),
        ("completed", None, None, 0),  # a lease
        ("failed", 7, None, 7),
        ("failed", None, 9, 137),
        ("failed", None, None, 1),
        ("failed", 256, None, 1),  # must not become a success
        ("cancelled", 0, None, 143),
        ("cancelled", None, 15, 143),
    ],
)
def test_a_job_s_end_becomes_the_exit_code_of_wait(state, exit_code, signal, expected):
    assert exit_code_of_job(state, exit_code, signal) == expected
