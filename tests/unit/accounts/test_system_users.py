"""The users that are made for tenants: their names, and whom is left alone."""

import re

import pytest

from tgpu.accounts import system_users
from tgpu.accounts.system_users import SystemUsers, system_user_name
from tgpu.core.errors import Conflict, InvalidRequest
from tgpu.core.model.ids import TenantId

NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


def test_a_plain_id_is_seen_in_the_name() -> None:
    assert system_user_name(TenantId("vision")) == "tgpu-vision"


@pytest.mark.parametrize(
    "tenant_id", ["Vision", "a.b", "x" * 128, "tenant-1765705491822", "A", "_"]
)
def test_every_id_gives_a_name_that_useradd_takes(tenant_id: str) -> None:
    assert NAME.fullmatch(system_user_name(TenantId(tenant_id)))


def test_no_two_ids_give_one_name() -> None:
    ids = ["a.b", "a-b", "a_b", "A-b", "a..b", "x" * 40, "x" * 41, "X" * 40]
    names = {system_user_name(TenantId(each)) for each in ids}
    assert len(names) == len(ids)


async def test_only_root_makes_users() -> None:
    with pytest.raises(InvalidRequest, match="root"):
        await SystemUsers(own_uid=1000).make(TenantId("vision"))


async def test_a_user_that_was_not_made_for_it_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(system_users, "system_user_name", lambda tenant_id: "games")
    with pytest.raises(Conflict, match="--run-as games"):
        await SystemUsers(own_uid=0).make(TenantId("vision"))


async def test_what_useradd_has_against_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(words: list[str]) -> tuple[int, str]:
        return 1, "useradd: cannot lock /etc/passwd; try again later."

    monkeypatch.setattr(system_users, "_run", refuses)
    monkeypatch.setattr("shutil.which", lambda name, path: f"/usr/sbin/{name}")
    with pytest.raises(Conflict, match="cannot lock"):
        await SystemUsers(own_uid=0).make(TenantId("vision-of-nobody"))


async def test_without_useradd_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path: None)
    with pytest.raises(Conflict, match="--run-as USER"):
        await SystemUsers(own_uid=0).make(TenantId("vision-of-nobody"))


async def test_nothing_is_left_to_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    async def notes(words: list[str]) -> tuple[int, str]:
        asked.append(words)
        return 1, ""

    monkeypatch.setattr(system_users, "_run", notes)
    monkeypatch.setattr("shutil.which", lambda name, path: f"/usr/sbin/{name}")
    with pytest.raises(Conflict, match="exit code 1"):
        await SystemUsers(own_uid=0).make(TenantId("vision-of-nobody"))
    assert asked[0][-2:] == ["--", "tgpu-vision-of-nobody"]
    assert asked[0][0] == "/usr/sbin/useradd"
