"""What can go wrong between a client and the service.

ClientError            the service said no: its code, sentence and details
├── Invalid            what was sent cannot be: a field has an impossible value
├── Denied             who sent it is not known there, or may not do that
├── NotFound           there is no such thing, or not for this caller
├── Conflict           not in the state that it is in
├── Unavailable        not now: later it may
├── NoService          nobody answers there
├── Lost               the connection broke after a request was sent: its fate is unknown
└── BadAnswer          something answered, but not in the shape of our API
StartFailed            a service in the background did not come up
TimedOut               a job was not over when the time was up
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tgpu.wire.v1 import JobModel


class ClientError(Exception):
    """An error answer. `status` is the HTTP status; 0 where there was no answer."""

    def __init__(
        self, code: str, message: str, details: Sequence[object] = (), status: int = 0
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = list(details)
        self.status = status


class Invalid(ClientError):
    pass


class Denied(ClientError):
    pass


class NotFound(ClientError):
    pass


class Conflict(ClientError):
    pass


class Unavailable(ClientError):
    pass


class NoService(ClientError):
    def __init__(self, where: str, problem: str = "") -> None:
        tail = f" ({problem})" if problem else ""
        super().__init__("NO_SERVICE", f"no scheduler answers at {where}{tail}")
        self.where = where
        self.problem = problem


class Lost(ClientError):
    def __init__(self, where: str, problem: str) -> None:
        super().__init__(
            "CONNECTION_LOST",
            f"the connection to the scheduler at {where} broke before it answered ({problem})",
        )


class BadAnswer(ClientError):
    def __init__(self, where: str, problem: str, status: int) -> None:
        super().__init__(
            "BAD_ANSWER",
            f"the server at {where} does not use this version of the API: {problem}",
            status=status,
        )


class StartFailed(Exception):
    """The service that was started in the background ended, or was not ready in time."""

    def __init__(self, message: str, log_tail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.log_tail = log_tail


class TimedOut(Exception):
    """The job was not over when the time was up; `job` is how it stood."""

    def __init__(self, job: "JobModel") -> None:
        super().__init__(f"job {job.job_id} is still {job.state}")
        self.job = job


_KINDS: Final[dict[int, type[ClientError]]] = {
    HTTPStatus.BAD_REQUEST: Invalid,
    HTTPStatus.UNAUTHORIZED: Denied,
    HTTPStatus.FORBIDDEN: Denied,
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.GONE: Conflict,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: Invalid,
    HTTPStatus.UNPROCESSABLE_ENTITY: Invalid,
    HTTPStatus.TOO_MANY_REQUESTS: Unavailable,
    HTTPStatus.SERVICE_UNAVAILABLE: Unavailable,
}


def refusal(code: str, message: str, details: Sequence[object], status: int) -> ClientError:
    """The kind that fits the status."""
    return _KINDS.get(status, ClientError)(code, message, details, status)


def may_pass(error: ClientError) -> bool:
    """A restart looks like this from outside: nobody answers, a connection breaks, not yet."""
    return isinstance(error, NoService | Lost | Unavailable)
