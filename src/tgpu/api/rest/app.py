"""The HTTP application: routes, and one form for every error."""

import os

import structlog
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tgpu import __version__
from tgpu.api.auth.authenticator import Authenticator
from tgpu.api.auth.doors import DoorRules
from tgpu.api.errors import body, http_error
from tgpu.api.rest import pages
from tgpu.api.rest.description import DescribedApi
from tgpu.api.rest.parameters import check_parameters
from tgpu.api.rest.problem import ApiProblem
from tgpu.api.rest.route import BadJson, Turnstile
from tgpu.api.rest.routes import (
    arrays,
    audit,
    budgets,
    cluster,
    estimates,
    events,
    jobs,
    jobs_file,
    journal,
    keys,
    metrics,
    nodes,
    notices,
    preemptions,
    queues,
    receipt,
    reservations,
    root,
    selection,
    share,
    sizes,
    tenants,
    user_limits,
)
from tgpu.api.rest.rules import check_role
from tgpu.api.streams import Streams
from tgpu.api.translate.wording import complaints, sentence
from tgpu.core.errors import RateLimited, SchedulerError, Unavailable
from tgpu.telemetry.exposition import Exposition

_log = structlog.get_logger("gpu_scheduler.api")

_SHOWN = 100  # characters of a path that a sentence quotes
_HTTP_CODES = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 413: "TOO_LARGE"}


def make_app(*, data_dir: str | None, exposition: Exposition | None = None) -> FastAPI:
    """The application without its service; `app.state.service` is set when it has opened."""
    app = DescribedApi(
        title="tgpu, the GPU scheduler",
        version=__version__,
        description="Queues and runs GPU jobs on one machine, for one user or for many tenants.",
        dependencies=[Depends(check_role), Depends(check_parameters)],
        docs_url=None,  # FastAPI's pages load their scripts from another host
        redoc_url=None,
    )
    app.state.service = None
    app.state.data_dir = data_dir
    app.state.notices = None
    app.state.streams = Streams()
    app.state.large_bodies = Turnstile()
    app.state.authenticator = Authenticator(
        lambda: app.state.service, DoorRules(os.geteuid(), enabled=False)
    )
    for router in (
        root.router,
        queues.router,
        estimates.router,
        jobs.router,
        selection.router,
        arrays.router,
        preemptions.router,
        receipt.router,
        tenants.router,
        user_limits.router,
        share.router,
        sizes.router,
        jobs_file.router,
        budgets.router,
        reservations.router,
        cluster.router,
        metrics.router,
        nodes.router,
        events.router,
        notices.router,
        journal.router,
        keys.router,
        audit.router,
    ):
        app.include_router(router)
    app.router.routes.extend(pages.routes())
    if exposition is not None:
        app.router.routes.append(exposition.route())
    app.add_exception_handler(SchedulerError, _scheduler_error)
    app.add_exception_handler(ApiProblem, _problem)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(Exception, _bug)
    return app


async def _scheduler_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SchedulerError)
    found = http_error(error)
    if found.status >= 500 and found.code == "INTERNAL_ERROR":
        _log.error("an invariant is broken", problem=error.message, details=error.details)
    answer = JSONResponse(body(found.code, error.message, error.details), found.status)
    if isinstance(error, Unavailable | RateLimited):
        answer.headers["Retry-After"] = str(error.wait_seconds)
    return answer


async def _problem(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiProblem)
    return JSONResponse(body(error.code, error.message, error.details), error.status)


async def _validation_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = complaints(error.errors())
    return JSONResponse(body("VALIDATION_ERROR", sentence(found), found), 422)


async def _http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = _HTTP_CODES.get(error.status_code, "HTTP_ERROR")
    message = str(error.detail)
    if isinstance(error.__cause__, BadJson):
        problem = f"must be JSON: {error.__cause__}"
        found: list[dict[str, object]] = [{"field": "body", "value": "", "remedy": problem}]
        return JSONResponse(body("VALIDATION_ERROR", sentence(found), found), 422)
    path = (
        request.url.path if len(request.url.path) <= _SHOWN else request.url.path[:_SHOWN] + "..."
    )
    if error.status_code == 404:
        message = f"there is nothing at {path}; GET /docs shows all paths"
    elif error.status_code == 405:
        message = f"{request.method} is not allowed at {path}"
    return JSONResponse(body(code, message), error.status_code, headers=error.headers)


async def _bug(_: Request, error: Exception) -> JSONResponse:
    # The traceback goes to the log; the caller gets what can be acted on.
    message = "internal error of the service; its log has the details"
    return JSONResponse(body("INTERNAL_ERROR", message), 500)
