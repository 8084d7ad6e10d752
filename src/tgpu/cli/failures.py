"""Every way a command can fail, as a sentence, the next step and an exit code."""

from typing import TYPE_CHECKING

from tgpu.cli.exit_codes import ExitCode, exit_code_of_error

if TYPE_CHECKING:
    from pydantic import ValidationError

    from tgpu.client.errors import ClientError


class Failure(Exception):
    """The end of a command. `code` is for programs, the sentence and the remedy are for people."""

    def __init__(
        self,
        message: str,
        remedy: str = "",
        *,
        exit_code: int = ExitCode.FAILURE,
        code: str = "FAILED",
        details: list[object] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.exit_code = exit_code
        self.code = code
        self.details = details or []

    def as_json(self) -> dict[str, object]:
        """The shape of the API's own errors, with the next step beside it."""
        error: dict[str, object] = {
            "code": self.code,
            "message": self.message,
            "details": self.details,
        }
        if self.remedy:
            error["remedy"] = self.remedy
        return {"error": error}


def bad_input(message: str, remedy: str = "") -> Failure:
    return Failure(message, remedy, exit_code=ExitCode.BAD_INPUT, code="VALIDATION_ERROR")


def bad_option(option: str, error: ValueError) -> Failure:
    return bad_input(f"{option}: {error}")


_REMEDIES = {
    "JOB_NOT_FOUND": "`tgpu list --all` shows all jobs",
    "NO_LOG": "`tgpu why JOB` says what it waits for; a lease has no log",
    "CONNECTION_LOST": (
        "`tgpu list` shows whether the request arrived; `tgpu doctor` checks for the cause"
    ),
    "BAD_ANSWER": "if the scheduler is older than this tgpu, restart it with `tgpu stop` and "
    "`tgpu start`; else check the address",
    "INTERNAL_ERROR": "this is a bug in the scheduler; its log has the details",
}


def of_client_error(error: "ClientError") -> Failure:
    remedy = _REMEDIES.get(error.code, "")
    return Failure(
        error.message,
        "" if remedy in error.message else remedy,
        exit_code=exit_code_of_error(error.code, error.status),
        code=error.code,
        details=error.details,
    )


def of_validation(error: "ValidationError") -> Failure:
    from tgpu.core.errors import quoted
    from tgpu.wire.complaints import remedy_of

    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    return bad_input(f"{field}: {remedy_of(first)} (got {quoted(first['input'])})")
