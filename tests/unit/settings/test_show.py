"""The settings that hold, with their origins, and nothing that is secret."""

from pathlib import Path

import pytest

from tgpu.settings import all_keys, effective_values, load_with_origins
from tgpu.settings.masking import mask_url

NOBODY = {"HOME": "/home/nobody"}


def shown(config_file=None, flags=None, environ=NOBODY) -> dict[str, tuple[object, str]]:
    values = effective_values(load_with_origins(config_file, flags or {}, environ))
    return {found.key: (found.value, found.source) for found in values}


def test_every_setting_is_there_and_is_the_default():
    found = shown()
    assert list(found) == [key.name for key in all_keys()]
    assert {source for _, source in found.values()} == {"default"}


def test_places_that_follow_from_others_are_shown_as_they_are():
    found = shown(flags={"data_dir": "/data"})
    assert found["data_dir"] == ("/data", "--data-dir")
    assert found["database.path"] == ("/data/tgpu.db", "default")


def test_each_source_is_named(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("engine:\n  grace_seconds: 3\napi: {host: localhost, http_port: 1}\n")
    environ = NOBODY | {"QUOTA_PROVIDER": "ldap", "GPU_SCHEDULER_API_HTTP_PORT": "2"}
    found = shown(file, {"devices.gpus": "sim:1xT4"}, environ)
    assert found["engine.grace_seconds"] == (3.0, f"{file}, line 2")
    assert found["api.host"] == ("localhost", f"{file}, line 3")
    assert found["api.http_port"] == (2, "GPU_SCHEDULER_API_HTTP_PORT")
    assert found["quota.provider"] == ("ldap", "QUOTA_PROVIDER")
    assert found["devices.gpus"] == ("sim:1xT4", "--gpus")


def test_a_kind_that_follows_from_the_host_says_so():
    found = shown(flags={"database.host": "db"})
    assert found["database.kind"] == ("postgresql", "database.host is set")


def test_secrets_are_masked():
    flags = {"database.password": "hunter2", "quota.slurm_auth_token": "hunter2"}
    found = shown(flags={**flags, "database.url": "postgresql://u:hunter2@db/jobs"})
    assert "hunter2" not in str(found)
    assert found["database.password"][0] == "********"
    assert found["database.url"][0] == "postgresql://u:********@db/jobs"


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("postgresql://u:p@ss@db:5/x", "postgresql://u:********@db:5/x"),
        ("postgresql://db/x?password=p&sslmode=require", "postgresql://db/x?password=********&ss"),
        ("postgresql://db:5432/x", "postgresql://db:5432/x"),
        ("redis://:p@db:6379/0", "redis://:********@db:6379/0"),
        ("postgresql://u@db/x", "postgresql://u@db/x"),
    ],
)
def test_the_password_of_an_address_is_masked(url, masked):
    assert mask_url(url).startswith(masked)
    assert mask_url(url).count("@") == url.count("@") - (url.count("@") > 1)


def test_the_values_of_a_file_in_toml_have_no_line(tmp_path):
    file = Path(tmp_path / "a.toml")
    file.write_text("[api]\nhttp_port = 5\n")
    assert shown(file)["api.http_port"] == (5, str(file))
