"""What is refused before a service starts, because its jobs could run as nobody who will do."""

import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from tgpu.app.refusal import CannotServe
from tgpu.app.run_as import check_run_as, run_as_rules
from tgpu.settings import Settings

GAMES_UID = pwd.getpwnam("games").pw_uid


def some_settings(tmp_path: Path, **sections: Any) -> Settings:
    given: dict[str, Any] = {"data_dir": str(tmp_path), "auth": {"enabled": True}, **sections}
    return Settings.model_validate(given)


def red_and_blue(red: str, blue: str) -> list[dict[str, str]]:
    return [{"tenant_id": "red", "run_as": red}, {"tenant_id": "blue", "run_as": blue}]


@pytest.mark.parametrize(
    ("own_uid", "sections", "words"),
    [
        (GAMES_UID, {}, ("does not run as root", "engine.jobs_as_service_user: true")),
        (0, {"engine": {"jobs_as_service_user": True}}, ("runs as root", "tenants[].run_as")),
        (0, {"tenants": red_and_blue("root", "games")}, ("red", "root")),
        (0, {"tenants": red_and_blue("nobody", "nobody")}, ("red", "blue", "nobody")),
        (0, {"tenants": red_and_blue("no-such-user", "")}, ("red", "no such user")),
        (0, {"engine": {"run_as": "root"}}, ("engine.run_as", "root")),
        (0, {"engine": {"run_as": "no-such-user"}}, ("engine.run_as", "no such user")),
        (
            0,
            {"engine": {"run_as": "nobody"}, "tenants": red_and_blue("", "")},
            ("red, blue", "tgpu-{tenant}"),
        ),
        (
            0,
            {
                "engine": {"run_as": "{tenant}"},
                "tenants": [{"tenant_id": "games"}, {"tenant_id": "blue", "run_as": "games"}],
            },
            ("games", "blue", "never run as one user"),
        ),
    ],
)
def test_a_service_does_not_start_whose_jobs_could_have_its_own_rights(
    tmp_path: Path, own_uid: int, sections: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(CannotServe) as refused:
        check_run_as(some_settings(tmp_path, **sections), own_uid)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("own_uid", "sections"),
    [
        (0, {}),  # local users run as themselves; keys are refused when they submit
        (0, {"tenants": red_and_blue("nobody", "games")}),
        (0, {"engine": {"run_as": "tgpu-{tenant}"}, "tenants": red_and_blue("", "")}),
        (0, {"engine": {"run_as": "nobody"}}),
        (0, {"engine": {"run_as": "nobody"}, "tenants": red_and_blue("", "games")}),
        (GAMES_UID, {"engine": {"jobs_as_service_user": True}}),
        (GAMES_UID, {"engine": {"kind": "none"}}),
        (GAMES_UID, {"auth": {"enabled": False}}),
        (0, {"auth": {"enabled": False}}),
    ],
)
def test_a_service_starts_whose_jobs_run_as_others(
    tmp_path: Path, own_uid: int, sections: dict[str, Any]
) -> None:
    check_run_as(some_settings(tmp_path, **sections), own_uid)


def test_the_users_of_tenants_are_looked_at_also_where_the_service_is_nobody_else(
    tmp_path: Path,
) -> None:
    settings = some_settings(
        tmp_path,
        engine={"jobs_as_service_user": True},
        tenants=red_and_blue("nobody", ""),
    )
    with pytest.raises(CannotServe, match="does not run as root"):
        check_run_as(settings, GAMES_UID)


@pytest.mark.parametrize("name", ["0", "65534", "a b", "-x", "a/b", "a:b", "x" * 33])
def test_a_number_or_nonsense_is_no_user(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="run_as"):
        some_settings(tmp_path, tenants=red_and_blue(name, ""))


def test_the_rules_follow_the_settings(tmp_path: Path) -> None:
    rules = run_as_rules(some_settings(tmp_path, engine={"run_as": "tgpu-{tenant}"}))
    assert (rules.shared, rules.user, rules.as_service) == (True, "tgpu-{tenant}", False)
    assert rules.own_uid == os.geteuid()
