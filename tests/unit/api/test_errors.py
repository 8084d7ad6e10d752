"""One table from errors to HTTP, complete."""

import pytest

from tgpu.api.errors import TABLE, body, http_error
from tgpu.core import errors
from tgpu.core.errors import NotFound, SchedulerError
from tgpu.store.api import StoreUnavailable

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, SchedulerError) and kind is not SchedulerError
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_error_has_a_status_and_a_code(kind: type[SchedulerError]) -> None:
    assert kind in TABLE


def test_codes_are_the_documented_ones() -> None:
    found = {str(entry.code): int(entry.status) for entry in TABLE.values()}
    documented = {
        "VALIDATION_ERROR": 422,
        "QUOTA_EXCEEDED": 422,
        "FORBIDDEN": 403,
        "NOT_FOUND": 404,
        "CONFLICT": 409,
        "DUPLICATE_JOB": 409,
        "INVALID_STATE": 409,
        "UNAVAILABLE": 503,
        "INTERNAL_ERROR": 500,
    }
    assert documented.items() <= found.items()


def test_a_missing_job_has_a_code_of_its_own() -> None:
    assert http_error(NotFound("job", "7")).code == "JOB_NOT_FOUND"
    assert http_error(NotFound("GPU", "7")).code == "NOT_FOUND"


def test_an_error_of_another_layer_is_what_its_nearest_parent_is() -> None:
    assert http_error(StoreUnavailable("full")).code == "UNAVAILABLE"


def test_the_body_has_one_shape() -> None:
    assert body("C", "m") == {"error": {"code": "C", "message": "m", "details": []}}
    assert body("C", "m", [{"a": 1}])["error"]["details"] == [{"a": 1}]  # type: ignore[index]
