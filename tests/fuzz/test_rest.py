"""Requests generated from the OpenAPI document, by callers of every role and by strangers."""

from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.fuzz.target import BOUND, CALLERS, CANARY, STRANGERS, Target
from tgpu.api.rest.app import make_app
from tgpu.api.rest.rules import PUBLIC_PATHS

pytestmark = pytest.mark.external

CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
READS: Final = ("GET", "HEAD", "OPTIONS")
ASKS: Final = ("/api/v1/jobs/estimate",)  # a POST that changes nothing
DOCUMENT: Final[dict[str, Any]] = make_app(data_dir=None).openapi()

# It never ends by itself: see test_streams.py.
schema = schemathesis.openapi.from_dict(DOCUMENT).exclude(path="/api/v1/events")

# For each of some sixty operations: a few in every run of the tests, by whoever is drawn.
EXAMPLES: Final = max(8, settings().max_examples // 6)


@schema.given(caller=st.sampled_from([*CALLERS, *STRANGERS]))
@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    database=None,
    phases=[Phase.generate],  # examples of the document: tests/integration/api/test_schema.py
    suppress_health_check=list(HealthCheck),
)
def test_no_request_breaks_the_service_or_gets_out_what_is_anothers(case, caller, target: Target):
    case.query = {name: _brief(name, value) for name, value in (case.query or {}).items()}
    headers = target.headers(caller)
    answer = case.call_and_validate(base_url=target.url, checks=CHECKS, headers=headers)
    changed = answer.status_code < 300 and case.method.upper() not in READS
    if caller in STRANGERS:
        assert answer.status_code >= 400 or case.path in PUBLIC_PATHS
    if caller == "viewer":
        assert not changed or case.path in ASKS
    if caller in (*BOUND, *STRANGERS):
        assert CANARY.encode() not in answer.content
    assert b"Traceback" not in answer.content


def _brief(name: str, value: object) -> object:
    """Long polls would take a minute each."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in ("timeout", "wait") and is_number and 0 <= value <= 60:  # type: ignore[operator]
        return 0
    return value
