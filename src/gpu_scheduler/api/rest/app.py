"""The HTTP application: routes, and one shape for every error."""

from collections.abc import Sequence
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from gpu_scheduler import __version__
from gpu_scheduler.api.errors import body, http_error
from gpu_scheduler.api.rest import cluster, jobs, root
from gpu_scheduler.api.rest.problem import Problem
from gpu_scheduler.core.errors import SchedulerError

_log = structlog.get_logger("gpu_scheduler.api")

_HTTP_CODES = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}


def make_app(*, data_dir: str | None) -> FastAPI:
    """The application without its service; `app.state.service` is set when it has opened."""
    app = FastAPI(
        title="gpu-scheduler",
        version=__version__,
        description="Runs GPU jobs on one box, for many tenants, or on a cluster engine.",
    )
    app.state.service = None
    app.state.data_dir = data_dir
    for router in (root.router, jobs.router, cluster.router):
        app.include_router(router)
    app.add_exception_handler(SchedulerError, _scheduler_error)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(Exception, _bug)
    return app


async def _scheduler_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SchedulerError)
    found = http_error(error)
    if found.status >= 500 and found.code == "INTERNAL_ERROR":
        _log.error("an invariant is broken", problem=error.message, details=error.details)
    return JSONResponse(body(found.code, error.message, error.details), found.status)


async def _problem(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return JSONResponse(body(error.code, error.message, error.details), error.status)


async def _validation_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    details = [_complaint(found) for found in error.errors()]
    message = "; ".join(f"{d['field']}: {d['remedy']} (got {d['value']})" for d in details[:3])
    return JSONResponse(body("VALIDATION_ERROR", message, details), 422)


def _complaint(found: dict[str, Any]) -> dict[str, object]:
    place: Sequence[Any] = found.get("loc", ())
    field = ".".join(str(part) for part in place if part not in ("body", "query", "path"))
    value = repr(found.get("input"))
    remedy = str(found.get("msg", "not valid"))
    return {
        "field": field or "body",
        "value": value if len(value) <= 80 else value[:77] + "...",
        "remedy": remedy[:1].lower() + remedy[1:],
    }


async def _http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = _HTTP_CODES.get(error.status_code, "HTTP_ERROR")
    message = str(error.detail)
    if error.status_code == 404:
        message = f"there is nothing at {request.url.path}; GET /docs shows what there is"
    elif error.status_code == 405:
        message = f"{request.method} is not possible at {request.url.path}"
    return JSONResponse(body(code, message), error.status_code, headers=error.headers)


async def _bug(_: Request, error: Exception) -> JSONResponse:
    # The traceback goes to the log; the caller gets what can be acted on.
    message = "the service met a bug of its own; its log has the details"
    return JSONResponse(body("INTERNAL_ERROR", message), 500)
