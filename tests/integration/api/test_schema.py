"""The OpenAPI document against the live service: every answer is one that the document knows."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.real_service import RealService
from tgpu.api.rest.app import make_app
from tgpu.api.rest.description import ERRORS

pytestmark = pytest.mark.external

# Bounded: some fifty operations, each with this many generated requests and its examples.
EXAMPLES = 12
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]
TOO_LONG = 414
# These answer 200 and tell for each job what is wrong with it: one bad job stops no other.
ANSWERS_FOR_EACH = ("/jobs/batch", "/ingest")
DOCUMENT: dict[str, Any] = make_app(data_dir=None).openapi()
OPERATIONS = [
    (f"{method.upper()} {path}", operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[RealService]:
    # Without an engine: generated commands are queued and stored, and never run.
    directory = tmp_path_factory.mktemp("schema")
    with RealService(directory, settings={"engine": {"kind": "none"}}) as running:
        yield running.start()


# It never ends by itself; tests/integration/api/test_events.py follows it.
schema = schemathesis.openapi.from_dict(DOCUMENT).exclude(path="/api/v1/events")


def test_the_service_shows_the_document(service):
    assert service.http.get("/openapi.json").json() == DOCUMENT


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_the_service_answers_as_its_document_says(case, service):
    case.query = {name: _brief(name, value) for name, value in (case.query or {}).items()}
    answer = case.call(base_url=service.url)
    # 414 is a refusal too, of which the check does not know.
    is_judged = case.path not in ANSWERS_FOR_EACH and answer.status_code != TOO_LONG
    refused = [negative_data_rejection] if is_judged else []
    case.validate_response(answer, checks=[*CHECKS, *refused])


def _brief(name: str, value: object) -> object:
    """Long polls are tested elsewhere; here they would take a minute each."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in ("timeout", "wait") and is_number and 0 <= value <= 60:  # type: ignore[operator]
        return 0
    return value


@pytest.mark.parametrize(("name", "operation"), OPERATIONS, ids=[name for name, _ in OPERATIONS])
def test_every_operation_is_described(name, operation):
    assert operation["summary"]
    assert operation["description"]
    documented = [status for status in operation["responses"] if not status.startswith("2")]
    assert documented == sorted(documented)
    assert {"401", "403", "429", "500", "503"} <= set(documented)


def bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, operation in OPERATIONS:
        for kind, media in operation.get("requestBody", {}).get("content", {}).items():
            yield f"{name} {kind}", media["schema"]


BODIES = dict(bodies())


@pytest.mark.parametrize("name", BODIES)
def test_every_request_body_has_an_example(name):
    assert resolved(BODIES[name]).get("examples")


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    options = [one for one in schema.get("anyOf", []) if one != {"type": "null"}]
    reference = (options[0] if options else schema).get("$ref")
    if reference is None:
        return schema
    found: dict[str, Any] = DOCUMENT["components"]["schemas"][reference.rpartition("/")[2]]
    return found


@pytest.mark.parametrize("status", ERRORS)
def test_every_error_has_an_example_in_the_one_shape(status):
    answer = DOCUMENT["components"]["responses"][f"Error{status}"]
    content = answer["content"]["application/json"]
    assert content["schema"] == {"$ref": "#/components/schemas/ErrorAnswer"}
    assert re.fullmatch(r"[A-Z_]+", content["example"]["error"]["code"])
