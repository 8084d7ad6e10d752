"""An HTTP error with its own code, for errors in the call rather than in a job."""


class ApiProblem(Exception):
    def __init__(
        self, status: int, code: str, message: str, details: list[dict[str, object]] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details or []
