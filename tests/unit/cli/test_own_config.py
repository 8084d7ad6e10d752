"""What a user chooses for themselves: the tenant, by option, variable or file."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tgpu.cli import connect
from tgpu.cli.options import complete_tenants
from tgpu.cli.own_config import Chosen, chosen, config_file
from tgpu.cli.render.whoami import whoami_lines
from tgpu.wire.keys_v1 import WhoAmI


def test_a_choice_is_kept_in_a_file_for_its_user_alone(tgpu):
    outcome = tgpu("config", "set", "tenant", "vision")
    assert outcome.out == f"tenant is vision from now on (in {config_file()})\n"
    assert config_file().read_text() == 'tenant = "vision"\n'
    assert config_file().stat().st_mode & 0o777 == 0o600
    assert config_file().parent.stat().st_mode & 0o777 == 0o700
    assert tgpu("config", "get", "tenant").out == "vision\n"
    assert tgpu("config", "list").out == f"tenant = vision (from {config_file()})\n"
    listed = json.loads(tgpu("config", "list", "--json").out)
    assert listed["values"] == [{"key": "tenant", "value": "vision", "source": str(config_file())}]
    assert tgpu("config", "unset", "tenant").out == "tenant is no longer set (it was vision)\n"
    assert tgpu("config", "unset", "tenant").out == "tenant was not set\n"
    assert tgpu("config", "list").out == "tenant is not set\n"
    unset = tgpu("config", "get", "tenant")
    assert (unset.code, unset.err.splitlines()[0]) == (1, "tgpu: tenant is not set")


def test_a_name_with_signs_comes_back_as_it_was(tgpu):
    name = 'a"b\\c'
    assert tgpu("config", "set", "tenant", name).code == 0
    assert tgpu("config", "get", "tenant").out == f"{name}\n"


def test_an_option_beats_the_variable_which_beats_the_file(tgpu, service, monkeypatch):
    def sent() -> object:
        return service.bodies[-1].get("tenant_id")

    assert tgpu("submit", "--", "true").code == 0
    assert sent() is None  # the scheduler knows which is theirs
    tgpu("config", "set", "tenant", "filed")
    tgpu("submit", "--", "true")
    assert sent() == "filed"
    monkeypatch.setenv("TGPU_TENANT", "told")
    tgpu("submit", "--", "true")
    assert sent() == "told"
    tgpu("submit", "--tenant", "typed", "--", "true")
    assert sent() == "typed"


def test_what_is_refused_is_said_of_where_it_came_from(tgpu, service, monkeypatch):
    sentence = "no such tenant, or not one of yours; you may use: vision (got 'speech')"
    service.refusal = (422, "VALIDATION_ERROR", f"tenant_id: {sentence}")
    monkeypatch.setenv("TGPU_TENANT", "speech")
    assert tgpu("submit", "--", "true").err.splitlines()[0] == f"tgpu: TGPU_TENANT: {sentence}"
    typed = tgpu("submit", "--tenant", "speech", "--", "true").err.splitlines()[0]
    assert typed == f"tgpu: --tenant: {sentence}"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("set", "color", "red"), "'color' is not one of your settings"),
        (("set", "tenant", "two words"), "'two words' is not a tenant name"),
        (("get", "url"), "'url' is not one of your settings"),
    ],
)
def test_what_cannot_be_set_is_refused(tgpu, arguments, sentence):
    outcome = tgpu("config", *arguments)
    assert outcome.code == 2
    assert sentence in outcome.err
    assert not config_file().exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("tenant = \n", "is not TOML"),
        ("tenant = 5\n", "5 is not a tenant name"),
        ("color = 'red'\n", "'color' is not known there"),
    ],
)
def test_a_file_that_cannot_be_is_told_with_its_name(tgpu, content, sentence):
    config_file().parent.mkdir(parents=True)
    config_file().write_text(content)
    outcome = tgpu("submit", "--", "true")
    assert outcome.code == 2
    assert str(config_file()) in outcome.err
    assert sentence in outcome.err


def test_a_place_that_cannot_be_written_is_told(tgpu, monkeypatch, tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(blocked))
    outcome = tgpu("config", "set", "tenant", "vision")
    assert outcome.code != 0
    assert "cannot" in outcome.err
    assert "part of its path is not a folder" in outcome.err


def test_a_half_written_file_is_never_there(tgpu, monkeypatch):
    tgpu("config", "set", "tenant", "vision")

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    assert tgpu("config", "set", "tenant", "speech").code != 0
    assert os.listdir(config_file().parent) == ["config.toml"]
    assert chosen("tenant", None) == Chosen("vision", str(config_file()))


def test_tenants_are_completed_and_a_scheduler_that_is_away_costs_nothing(monkeypatch):
    told = SimpleNamespace(tenants=[SimpleNamespace(id="vision"), SimpleNamespace(id="speech")])

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(list_tenants=lambda: told)

    monkeypatch.setattr(connect, "open_client", opened)
    assert complete_tenants("v") == ["vision"]
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: 1 / 0)
    assert complete_tenants("v") == []


def who(**fields: object) -> WhoAmI:
    known = {"name": "ada", "kind": "uid", "role": "user", "tenants": ["speech", "vision"]}
    return WhoAmI.model_validate({**known, "how": "auth.map: group lab", **fields})


@pytest.mark.parametrize(
    ("found", "told", "last"),
    [
        (who(tenant="vision"), None, "your tenant: vision"),
        (who(), Chosen("speech", "TGPU_TENANT"), "speech (from TGPU_TENANT)"),
        (who(), Chosen("x", "TGPU_TENANT"), "x (from TGPU_TENANT), which is not one of yours"),
        (who(), None, "the one you give: --tenant, TGPU_TENANT, or tgpu config set tenant NAME"),
    ],
)
def test_whoami_says_who_why_and_which_tenant_applies(found, told, last):
    lines = whoami_lines(found, told)
    assert lines[0].startswith("ada: user of ")
    assert lines[1] == "known by: auth.map: group lab"
    assert lines[-1].endswith(last)


def test_whoami_tells_who_has_no_tenant_what_to_do():
    found = who(tenants=[], problem="ada belongs nowhere")
    assert whoami_lines(found, None) == ["ada: user of no tenant", "ada belongs nowhere"]
