"""The JSON schema of settings files, against the files themselves."""

import json

import jsonschema_rs
import pytest

from tests.meta.repository import ROOT
from tgpu.settings import SettingsError, json_schema, load_settings, sample
from tgpu.settings.setting_aliases import setting_aliases

NOBODY = {"HOME": "/home/nobody"}


def is_valid(content: object) -> bool:
    return bool(jsonschema_rs.validator_for(json_schema()).is_valid(content))


def test_the_schema_is_one():
    jsonschema_rs.meta.validate(json_schema())


def test_the_sample_is_valid_with_its_comments():
    assert is_valid(json.loads(sample("json")))


def test_a_file_with_the_names_of_others_is_valid():
    assert is_valid(json.loads((ROOT / "examples/config/one-box.json").read_text()))


@pytest.mark.parametrize("name", sorted(setting_aliases()))
def test_every_other_name_has_its_place(name):
    section, _, leaf = name.partition(".")
    assert not is_valid({section: {leaf: {"no": "key takes this"}}})
    assert not is_valid({section: {leaf + "_": 1}})


@pytest.mark.parametrize(
    "content",
    [
        {"api": {"http_port": 70_000}},
        {"api": {"port": 1}},
        {"security": {"allowed_script_paths": "/tmp"}},
        {"security": {"max_memory_per_job_gb": 0}},
        {"scheduler": {"backfill": "slow"}},
        {"logging": {"structured": "maybe"}},
        {"nothing": {}},
    ],
    ids=json.dumps,
)
def test_schema_and_service_refuse_the_same(tmp_path, content):
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(content))
    with pytest.raises(SettingsError):
        load_settings(file, {}, NOBODY)
    assert not is_valid(content)


def test_a_schema_is_nobody_elses():
    json_schema()["properties"].clear()
    assert json_schema()["properties"]
