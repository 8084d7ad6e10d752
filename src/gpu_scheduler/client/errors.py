"""What can go wrong between a client and the service.

ClientError            the service said no: its code, sentence and details
├── NoService          nobody answers there
├── Lost               the connection broke after a request was sent: its fate is unknown
└── BadAnswer          something answered, but not in the shape of our API
StartFailed            a service in the background did not come up
"""

from collections.abc import Sequence


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
            f"what answers at {where} does not speak this version of the API: {problem}",
            status=status,
        )


class StartFailed(Exception):
    """The service that was started in the background ended, or was not ready in time."""

    def __init__(self, message: str, log_tail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.log_tail = log_tail
