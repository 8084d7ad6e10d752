"""`auth.map` of the settings: the documented file of a team, and what a start warns of."""

import pytest
from structlog.testing import capture_logs

from tests.meta.repository import DOCS, ROOT
from tgpu.app.user_map import map_settings, warn_of_map
from tgpu.service.identity.caller import Role
from tgpu.settings import Settings, load_settings

TEAM = ROOT / "examples" / "config" / "team.yaml"
NOBODY = {"HOME": "/home/nobody"}


@pytest.mark.parametrize(
    ("user", "groups", "role", "tenants"),
    [
        ("ada", {"vision-team"}, Role.USER, {"vision"}),
        ("bob", {"vision-team", "speech-team"}, Role.USER, {"vision", "speech"}),
        ("boss", {"gpu-admins", "vision-team"}, Role.ADMIN, None),
        ("carol", {"users"}, Role.USER, {"vision", "speech"}),
        ("stud-7", set(), Role.USER, {"guests"}),
        ("kim", {"users"}, Role.USER, {"guests"}),
    ],
)
def test_the_documented_file_of_a_team_says_who_belongs_where(user, groups, role, tenants):
    settings = load_settings(TEAM, environ=NOBODY)
    found = map_settings(settings.auth).rules.of(user, groups)
    assert found is not None
    assert (found.role, found.tenants) == (role, tenants)


def test_the_file_in_the_how_to_is_the_one_of_the_examples():
    shown = (DOCS / "howto" / "secure.md").read_text().split("# examples/config/team.yaml\n")[1]
    lines = [line for line in TEAM.read_text().splitlines() if line and not line.startswith("#")]
    assert shown.split("```")[0].splitlines() == lines


def warnings(uid: int, **auth: object) -> list[str]:
    rules = [{"user": "ada", "tenants": ["vision", "*"]}]
    settings = Settings.model_validate(
        {"auth": {"map": rules, **auth}, "tenants": [{"tenant_id": "speech"}]}
    )
    with capture_logs() as logs:
        warn_of_map(settings, uid)
    return [str(line["event"]) for line in logs]


def test_a_map_for_nobody_and_tenants_that_are_not_there_are_told_at_the_start():
    (missing,) = warnings(0)
    assert missing.startswith("auth.map names tenants that the settings do not have")
    assert warnings(1000)[0].startswith("auth.map has no effect")
    assert warnings(0, local_users=False, enabled=True) == [missing]
    with capture_logs() as logs:
        warn_of_map(Settings(), 1000)
    assert logs == []
