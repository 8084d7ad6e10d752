"""Every part of every request has a bound, and a refusal costs the same however much was sent."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, ValidationError

from tgpu.api.rest.app import make_app
from tgpu.wire import scheduler_pb2 as pb
from tgpu.wire.grpc_v1 import REQUESTS
from tgpu.wire.nodes_v1 import AgentRegistration
from tgpu.wire.tenants_v1 import TenantCreate
from tgpu.wire.v1 import SubmitRequest

APP = make_app(data_dir=None)
DOCUMENT: dict[str, Any] = APP.openapi()
# The upload is a stream: limits.max_ingest_mb and the length of a line bound it.
STREAMS = {"POST /ingest", "POST /jobs/batch"}


def unbounded(schema: dict[str, Any], defs: dict[str, Any], place: str) -> Iterator[str]:
    """The places in a schema where a value may be as large as somebody likes."""
    if "$ref" in schema:
        schema = defs[schema["$ref"].rpartition("/")[2]]
    for key in ("anyOf", "oneOf", "allOf"):
        for number, each in enumerate(schema.get(key, ())):
            yield from unbounded(each, defs, f"{place}|{number}")
    if "enum" in schema or "const" in schema:
        return
    match schema.get("type"):
        case "string" if "maxLength" not in schema:
            yield place
        case "integer" | "number":
            if not {"minimum", "exclusiveMinimum"} & set(schema):
                yield f"{place} (least)"
            if not {"maximum", "exclusiveMaximum"} & set(schema):
                yield f"{place} (most)"
        case "array":
            if "maxItems" not in schema:
                yield place
            yield from unbounded(schema["items"], defs, f"{place}[]")
        case "object":
            yield from _of_object(schema, defs, place)
        case None if not {"anyOf", "oneOf", "allOf"} & set(schema):
            yield f"{place} (anything)"


def _of_object(schema: dict[str, Any], defs: dict[str, Any], place: str) -> Iterator[str]:
    for name, each in schema.get("properties", {}).items():
        yield from unbounded(each, defs, f"{place}.{name}")
    extra = schema.get("additionalProperties", False)
    names = schema.get("patternProperties", {})
    if (extra or names) and "maxProperties" not in schema:
        yield place
    if isinstance(extra, dict):
        yield from unbounded(extra, defs, f"{place}{{}}")
        if "maxLength" not in schema.get("propertyNames", {}):
            yield f"{place} (names)"
    for each in names.values():
        yield from unbounded(each, defs, f"{place}{{}}")


def rest_requests() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            where = f"{method.upper()} {path}"
            for parameter in operation.get("parameters", ()):
                yield f"{where} {parameter['name']}", parameter["schema"]
            if where in STREAMS:
                continue
            for content in operation.get("requestBody", {}).get("content", {}).values():
                yield where, content["schema"]


def test_every_part_of_a_rest_request_has_a_bound() -> None:
    defs = DOCUMENT["components"]["schemas"]
    found = [place for where, each in rest_requests() for place in unbounded(each, defs, where)]
    assert not found


def test_the_walk_finds_what_has_no_bound() -> None:
    class Loose(BaseModel):
        text: str
        number: int | None = None
        texts: list[str] = []
        names: dict[str, str] = {}

    schema = Loose.model_json_schema()
    found = list(unbounded(schema, schema.get("$defs", {}), "it"))
    assert found == [
        "it.text",
        "it.number|0 (least)",
        "it.number|0 (most)",
        "it.texts",
        "it.texts[]",
        "it.names",
        "it.names{}",
        "it.names (names)",
    ]


BODIES = [
    (method, path)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
    if "application/json" in operation.get("requestBody", {}).get("content", {})
    and f"{method.upper()} {path}" not in STREAMS
]


@pytest.mark.parametrize(("method", "path"), BODIES)
async def test_every_body_is_bounded_before_it_is_decoded(method: str, path: str) -> None:
    content = b'{"a": [' + b"[]," * 300_000 + b"1]}"
    transport = httpx.ASGITransport(APP)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.request(
            method,
            path.replace("{index}", "1"),
            content=content,
            headers={"content-type": "application/json"},
        )
    assert answer.status_code == 422
    message = answer.json()["error"]["message"]
    assert "more than 250000 values" in message or "is required" in message


def test_every_grpc_request_is_read_through_a_model_with_its_fields() -> None:
    methods = [
        method for service in pb.DESCRIPTOR.services_by_name.values() for method in service.methods
    ]
    assert {method.input_type.name for method in methods} == set(REQUESTS)
    for method in methods:
        model = REQUESTS[method.input_type.name]
        missing = {field.name for field in method.input_type.fields} - set(model.model_fields)
        assert not missing, method.input_type.name


def test_every_part_of_a_grpc_request_has_a_bound() -> None:
    found: list[str] = []
    for name, model in REQUESTS.items():
        schema = model.model_json_schema()
        found += unbounded(schema, schema.get("$defs", {}), name)
    assert not found


@pytest.mark.parametrize(
    ("model", "content"),
    [
        (SubmitRequest, {"command": [1] * 500_000}),
        (SubmitRequest, {"command": ["x"] * 500_000}),
        (SubmitRequest, {"environment": {str(n): n for n in range(100_000)}}),
        (SubmitRequest, {"environment": {str(n): n for n in range(8_000)}}),
        (SubmitRequest, {"base_environment": {str(n): "x" for n in range(100_000)}}),
        (SubmitRequest, {"labels": {str(n): n for n in range(100_000)}}),
        (SubmitRequest, {"params": {str(n): [n] * 500 for n in range(60)}}),
        (SubmitRequest, {"params": {"x": [0] * 9_000}}),
        (SubmitRequest, {"after": [{"job_id": n, "kind": n} for n in range(10_000)]}),
        (SubmitRequest, {"after": [{str(n): 1 for n in range(10_000)}]}),
        (SubmitRequest, {"allowed_gpus": ["x"] * 500_000}),
        (SubmitRequest, {"mail_on": ["x"] * 500_000}),
        (SubmitRequest, {str(n): n for n in range(100_000)}),
        (TenantCreate, {"name": "x", "max_gpus_by_type": {str(n): "x" for n in range(100_000)}}),
        (AgentRegistration, {"gpus": [{"index": "x"}] * 100_000}),
    ],
)
def test_a_request_of_wrong_parts_has_few_complaints(
    model: type[BaseModel], content: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(content)
    assert caught.value.error_count() <= 20
