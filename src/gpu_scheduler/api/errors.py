"""One table from our errors to HTTP, and one shape for all of them."""

from dataclasses import dataclass
from http import HTTPStatus

from gpu_scheduler.core.errors import (
    Conflict,
    Duplicate,
    Forbidden,
    IllegalMove,
    InvalidRequest,
    InvariantBroken,
    NotFound,
    QuotaExceeded,
    SchedulerError,
    Unavailable,
)


@dataclass(frozen=True, slots=True)
class HttpError:
    status: HTTPStatus
    code: str


TABLE: dict[type[SchedulerError], HttpError] = {
    InvalidRequest: HttpError(HTTPStatus.UNPROCESSABLE_ENTITY, "VALIDATION_ERROR"),
    QuotaExceeded: HttpError(HTTPStatus.UNPROCESSABLE_ENTITY, "QUOTA_EXCEEDED"),
    Forbidden: HttpError(HTTPStatus.FORBIDDEN, "FORBIDDEN"),
    NotFound: HttpError(HTTPStatus.NOT_FOUND, "NOT_FOUND"),
    Conflict: HttpError(HTTPStatus.CONFLICT, "CONFLICT"),
    Duplicate: HttpError(HTTPStatus.CONFLICT, "DUPLICATE_JOB"),
    IllegalMove: HttpError(HTTPStatus.CONFLICT, "INVALID_STATE"),
    Unavailable: HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "UNAVAILABLE"),
    InvariantBroken: HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "INTERNAL_ERROR"),
}


def http_error(error: SchedulerError) -> HttpError:
    """The nearest class in the table."""
    for kind in type(error).__mro__:
        found = TABLE.get(kind)
        if found is not None:
            if isinstance(error, NotFound) and error.kind == "job":
                return HttpError(found.status, "JOB_NOT_FOUND")
            return found
    return HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "INTERNAL_ERROR")


def body(
    code: str, message: str, details: list[dict[str, object]] | None = None
) -> dict[str, object]:
    return {"error": {"code": code, "message": message, "details": details or []}}
