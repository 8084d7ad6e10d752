"""The reference pages against the code: nothing undocumented, nothing invented."""

import json
import re

import pytest
import typer

from tests.meta.repository import DOCS, pages
from tgpu.api.errors import TABLE
from tgpu.api.rest.app import make_app
from tgpu.cli.exit_codes import MEANINGS
from tgpu.cli.main import app
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Array, Detail, Job, Request
from tgpu.core.model.lifecycle import Progress
from tgpu.core.model.node import Part, Placement, Share
from tgpu.core.model.reasons import ReasonCode
from tgpu.engines.placing import placed
from tgpu.service.execution.launch import launch_of
from tgpu.settings import Key, MapRuleSettings, NoticeSettings, TenantSettings, all_keys
from tgpu.settings.keys import PREFIX, allowed_at

SETTINGS = (DOCS / "reference" / "settings.md").read_text()
ERRORS = (DOCS / "reference" / "errors.md").read_text()
REST = (DOCS / "reference" / "rest.md").read_text()
ENVIRONMENT = (DOCS / "reference" / "environment.md").read_text()
CLI = (DOCS / "reference" / "cli.md").read_text()


def settings_row(key: Key) -> str:
    shown = "empty" if key.default == () else f"`{json.dumps(key.default)}`".replace('"', "")
    default = "" if key.default is None else shown
    return f"| `{key.name}` | {default} | {key.allowed} | {key.description} |"


@pytest.mark.parametrize("key", all_keys(), ids=lambda key: key.name)
def test_every_setting_has_its_row_in_the_reference(key):
    assert settings_row(key) in SETTINGS


@pytest.mark.parametrize("name", TenantSettings.model_fields)
def test_every_key_of_a_tenant_has_its_row_in_the_reference(name):
    description = TenantSettings.model_fields[name].description
    allowed = allowed_at(("tenants", 0, name))
    assert f"| `{name}` | {allowed} | {description} |" in SETTINGS


@pytest.mark.parametrize("name", NoticeSettings.model_fields)
def test_every_key_of_a_notice_has_its_row_in_the_reference(name):
    description = NoticeSettings.model_fields[name].description
    allowed = allowed_at(("notices", 0, name))
    assert f"| `{name}` | {allowed} | {description} |" in SETTINGS


@pytest.mark.parametrize("name", MapRuleSettings.model_fields)
def test_every_key_of_a_rule_of_the_map_has_its_row_in_the_reference(name):
    description = MapRuleSettings.model_fields[name].description
    allowed = allowed_at(("auth", "map", 0, name))
    assert f"| `{name}` | {allowed} | {description} |" in SETTINGS


def test_the_settings_reference_names_no_key_that_does_not_exist():
    rows = set(re.findall(r"^\| `([a-z_.]+)` \|", SETTINGS, re.MULTILINE))
    known = {key.name for key in all_keys()} | set(TenantSettings.model_fields)
    known |= set(NoticeSettings.model_fields) | set(MapRuleSettings.model_fields)
    assert rows - known == set()


def test_documents_name_no_variable_that_does_not_exist():
    known = {variable for key in all_keys() for variable in key.variables}
    named = {
        name
        for text in pages().values()
        for name in re.findall(rf"\b{PREFIX}[A-Z][A-Z_]*[A-Z]\b", text)
    }
    assert named - known == set()


@pytest.mark.parametrize("code", sorted({row.code for row in TABLE.values()}))
def test_every_error_code_is_documented(code):
    assert f"| `{code}` |" in ERRORS


@pytest.mark.parametrize("code", list(ReasonCode))
def test_every_reason_to_wait_is_documented(code):
    assert f"| `{code}` |" in ERRORS


def routes() -> list[tuple[str, str]]:
    paths = make_app(data_dir=None).openapi()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def test_every_route_is_documented():
    documented = {tuple(row) for row in re.findall(r"^\| `([A-Z]+) (/\S*)` \|", REST, re.MULTILINE)}
    assert documented == set(routes())


def test_every_variable_of_a_job_is_documented():
    # One that has all of it: an element of a sweep, and a gang whose workers share a GPU.
    request = Request(1000, gpu_mem_mib=100, workers=2)
    job = Job(JobId("1.1"), TenantId("t"), 0, 0, request, array=Array("1", 1))
    detail = Detail(argv=("true",), params=(("lr", "0.1"),))
    half = Part(NodeId("n"), (Share(0, 500),))
    progress = Progress(placement=Placement(half.node_id, "A100", half.shares, (half,)))
    launch = placed(launch_of(job, detail, progress, {}, grace_ms=0, home="/"), log_dir="")
    names = {*launch.env, *launch.workers[1], "MASTER_PORT"}  # the last is the launcher's
    given = {"TGPU_PARAM_<name>" if "PARAM" in name else name for name in names}
    documented = set(re.findall(r"^\| `([A-Z_]+(?:<name>)?)` \|", ENVIRONMENT, re.MULTILINE))
    assert given - documented == set()
    read = {"TGPU_URL", "TGPU_API_KEY", "TGPU_CA_FILE", "XDG_DATA_HOME", "XDG_CONFIG_HOME"}
    assert documented - given == read


@pytest.mark.parametrize("code", list(MEANINGS))
def test_every_exit_code_is_documented(code):
    assert f"| {int(code)} | {MEANINGS[code]} |" in CLI


def command_options() -> dict[str, set[str]]:
    """The public commands, each with the long options that are its own."""
    group = typer.main.get_command(app)
    shared = {"--json", "--api-url", "--help"}
    return {
        name: {
            option
            for parameter in command.params
            for option in parameter.opts
            if option.startswith("--") and option not in shared
        }
        for name, command in group.commands.items()  # type: ignore[attr-defined]  # it is a group
        if not command.hidden
    }


def section_of(name: str) -> str:
    """What the page says of a command, up to the next heading."""
    _, _, rest = CLI.partition(f"### `tgpu {name}`\n")
    return re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("name", command_options())
def test_every_command_is_documented_with_all_its_options(name):
    section = section_of(name)
    assert section.strip()
    named = set(re.findall(r"--[a-z][a-z-]*", section))
    assert command_options()[name] - named == set()


def test_documents_name_no_command_that_does_not_exist():
    named = {
        name
        for text in pages().values()
        for name in re.findall(r"(?:`|^|\$ |\()tgpu ([a-z][a-z-]*)", text, re.MULTILINE)
    }
    assert named - command_options().keys() == set()
