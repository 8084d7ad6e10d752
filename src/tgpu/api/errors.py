"""Maps our errors to HTTP and gRPC, in one table and one form."""

from dataclasses import dataclass
from http import HTTPStatus

from tgpu.core.errors import (
    Conflict,
    Duplicate,
    Forbidden,
    IllegalMove,
    InvalidRequest,
    InvariantBroken,
    Malformed,
    NotFound,
    QuotaExceeded,
    RateLimited,
    SchedulerError,
    Unauthenticated,
    Unavailable,
)
from tgpu.service.feed.feed import EventsGone, SlowReader
from tgpu.text.masking import mask_text


@dataclass(frozen=True, slots=True)
class HttpError:
    status: HTTPStatus
    code: str
    grpc: str  # the name of a grpc.StatusCode, which is not imported where nobody serves it


TABLE: dict[type[SchedulerError], HttpError] = {
    Malformed: HttpError(HTTPStatus.BAD_REQUEST, "BAD_REQUEST", "INVALID_ARGUMENT"),
    InvalidRequest: HttpError(
        HTTPStatus.UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", "INVALID_ARGUMENT"
    ),
    QuotaExceeded: HttpError(
        HTTPStatus.UNPROCESSABLE_ENTITY, "QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED"
    ),
    Unauthenticated: HttpError(HTTPStatus.UNAUTHORIZED, "UNAUTHENTICATED", "UNAUTHENTICATED"),
    RateLimited: HttpError(HTTPStatus.TOO_MANY_REQUESTS, "RATE_LIMITED", "RESOURCE_EXHAUSTED"),
    Forbidden: HttpError(HTTPStatus.FORBIDDEN, "FORBIDDEN", "PERMISSION_DENIED"),
    NotFound: HttpError(HTTPStatus.NOT_FOUND, "NOT_FOUND", "NOT_FOUND"),
    Conflict: HttpError(HTTPStatus.CONFLICT, "CONFLICT", "FAILED_PRECONDITION"),
    Duplicate: HttpError(HTTPStatus.CONFLICT, "DUPLICATE_JOB", "ALREADY_EXISTS"),
    IllegalMove: HttpError(HTTPStatus.CONFLICT, "INVALID_STATE", "FAILED_PRECONDITION"),
    Unavailable: HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "UNAVAILABLE", "UNAVAILABLE"),
    SlowReader: HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "SLOW_READER", "ABORTED"),
    EventsGone: HttpError(HTTPStatus.GONE, "EVENTS_GONE", "OUT_OF_RANGE"),
    InvariantBroken: HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "INTERNAL_ERROR", "INTERNAL"),
}


def http_error(error: SchedulerError) -> HttpError:
    """The nearest class in the table."""
    for kind in type(error).__mro__:
        found = TABLE.get(kind)
        if found is not None:
            if isinstance(error, NotFound) and error.kind == "job":
                return HttpError(found.status, "JOB_NOT_FOUND", found.grpc)
            return found
    return HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "INTERNAL_ERROR", "INTERNAL")


def body(
    code: str, message: str, details: list[dict[str, object]] | None = None
) -> dict[str, object]:
    """What a caller sent comes back in it, so it is looked through for secrets."""
    shown = [{name: _shown(value) for name, value in each.items()} for each in details or ()]
    return {"error": {"code": code, "message": mask_text(message), "details": shown}}


def _shown(value: object) -> object:
    return mask_text(value) if isinstance(value, str) else value
