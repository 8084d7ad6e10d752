from tgpu.wire.job_change_v1 import JobChange
from tgpu.wire.v1 import SubmitRequest


def test_a_change_has_the_fields_and_bounds_of_a_submission():
    asked = SubmitRequest.model_json_schema()["properties"]
    changed = JobChange.model_json_schema()["properties"]
    assert {name: asked[name] for name in changed} == changed


def test_what_is_never_changed_is_no_field():
    never = {"command", "environment", "base_environment", "tenant_id", "user", "job_id", "image"}
    assert not never & JobChange.model_fields.keys()
