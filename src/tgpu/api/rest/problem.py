"""An HTTP error with a code of its own, for what is wrong with the call, not with a job."""


class ApiProblem(Exception):
    def __init__(
        self, status: int, code: str, message: str, details: list[dict[str, object]] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details or []
