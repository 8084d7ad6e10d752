"""The OpenAPI document: what routes and models do not say by themselves.

Summaries come from the routes' own sentences; every error that a path can answer with is named,
with an example in the one shape that errors have.
"""

from typing import Any, Final

from fastapi import FastAPI

from tgpu.api.errors import body
from tgpu.wire.v1 import ErrorAnswer

_MISSING: Final = "no job named 7; `tgpu list --all` shows all jobs"
_WRONG: Final = "gpu_count: must be a multiple of 0.01 GPUs (got 0.123)"
# Status: what it means, and an example of it.
ERRORS: Final[dict[int, tuple[str, str, str]]] = {
    400: ("The request cannot be read", "BAD_FORMAT", "fmt: must be ndjson or csv (got 'xml')"),
    401: ("The caller is not authenticated", "UNAUTHENTICATED", "this service needs a key"),
    403: ("The caller may not do this", "FORBIDDEN", "a viewer may not submit or change jobs"),
    404: ("It does not exist, or the caller may not see it", "JOB_NOT_FOUND", _MISSING),
    409: ("Its current state does not allow this", "INVALID_STATE", "job 7 is completed"),
    410: ("These events are no longer kept", "EVENTS_GONE", "the events after 5 are not here"),
    413: ("The body is too large", "TOO_LARGE", "the body has more than 2 MiB; send it in parts"),
    414: ("The address is too long", "TOO_LARGE", "the address has more than 8 KiB"),
    422: ("A field has an invalid value", "VALIDATION_ERROR", _WRONG),
    429: ("Too many requests", "RATE_LIMITED", "too many requests; wait 1 s"),
    500: ("Internal error", "INTERNAL_ERROR", "internal error of the service"),
    503: ("Not now", "SERVICE_NOT_READY", "the service is still starting"),
}
_ALWAYS: Final = (401, 403, 429, 500, 503)
# Beyond what parameters and bodies imply: a project in a body, states and formats of the root.
_ALSO: Final[dict[tuple[str, str], tuple[int, ...]]] = {
    ("get", "/api/v1/events"): (404, 410),
    ("get", "/api/v1/queues"): (404,),
    ("post", "/api/v1/adopt"): (404,),
    ("post", "/api/v1/jobs/select"): (404,),
    ("get", "/api/v1/budgets"): (404,),
    ("get", "/api/v1/share"): (404,),
    ("post", "/api/v1/queues"): (404,),
    ("post", "/api/v1/jobs/scheduler/trigger"): (404,),
    ("post", "/ingest"): (400,),
    ("post", "/jobs/{job_id}/complete"): (400,),
}
Operation = dict[str, Any]


class DescribedApi(FastAPI):
    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = _completed(super().openapi())
        return self.openapi_schema


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's shape, which we never send
        schemas.pop(name, None)
    schemas.update(_error_schemas())
    components["responses"] = {f"Error{status}": _error(status) for status in ERRORS}
    components["securitySchemes"] = {
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key or a token (JWT); needed if auth.enabled is set.",
        }
    }
    document["security"] = [{}, {"bearer": []}]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            _complete_operation(method, path, operation)
    return document


def _complete_operation(method: str, path: str, operation: Operation) -> None:
    operation["summary"] = _first_sentence(operation.get("description") or operation["summary"])
    answers = {
        status: answer
        for status, answer in operation["responses"].items()
        if status.startswith("2")
    }
    for status in sorted(_statuses(method, path, operation)):
        answers[str(status)] = {"$ref": f"#/components/responses/Error{status}"}
    operation["responses"] = answers


def _statuses(method: str, path: str, operation: Operation) -> set[int]:
    found = {*_ALWAYS, *_ALSO.get((method, path), ())}
    if operation.get("parameters") or "requestBody" in operation:
        found.add(422)
    if operation.get("parameters"):
        found.add(414)
    if "{" in path:
        found.add(404)
    if method != "get":
        found.add(409)
    if "requestBody" in operation:
        found.add(413)
    return found


def _error(status: int) -> dict[str, Any]:
    meaning, code, message = ERRORS[status]
    schema = {"$ref": "#/components/schemas/ErrorAnswer"}
    content = {"application/json": {"schema": schema, "example": body(code, message)}}
    return {"description": meaning, "content": content}


def _error_schemas() -> dict[str, Any]:
    schema = ErrorAnswer.model_json_schema(ref_template="#/components/schemas/{model}")
    inner: dict[str, Any] = schema.pop("$defs")
    return {"ErrorAnswer": schema, **inner}


def _first_sentence(text: str) -> str:
    line = text.strip().splitlines()[0]
    return line.partition(". ")[0].removesuffix(".")
