"""Users and groups of this machine as tenants' people: through the gate, and as they change."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.integration.auth.door import OURS, THEIRS, Door, a_door, as_role
from tests.unit.service.eventually import eventually
from tgpu.api.auth.doors import DoorRules
from tgpu.peers.peer import Origin, Peer
from tgpu.service.attempts import LaunchSettings
from tgpu.service.identity import Role
from tgpu.service.memberships import Membership, Memberships
from tgpu.service.run_as import RunAsRules
from tgpu.service.user_map import MapRule, UserMap
from tgpu.settings.keys import allowed_at

ADA = 4711
RULES = UserMap(
    (
        MapRule((OURS,), group="vision-team"),
        MapRule((THEIRS,), group="speech-team"),
        MapRule((OURS,), Role.ADMIN, group="leads"),
    )
)


class System:
    """Which groups ada is in, as the system's lists have it."""

    def __init__(self, *groups: str) -> None:
        self.groups = set(groups)

    def look_up(self, uid: int) -> Membership:
        return Membership("ada", frozenset(self.groups))


def from_user(uid: int) -> Origin:
    return Origin("unix", is_here=True, peer=Peer(uid, pid=os.getpid()))


@asynccontextmanager
async def door_of(system: System, cache_seconds: float = 0) -> AsyncIterator[Door]:
    """What root's service says to ada over its socket; answers are believed for no time."""
    launch = LaunchSettings(
        grace_ms=0, home="/", default_environment={}, run_as=RunAsRules(True, own_uid=0)
    )
    doors = DoorRules(0, enabled=True, local_users=True)
    async with a_door(origin=from_user(ADA), doors=doors, launch=launch) as door:
        users = door.box.service.run_as.users
        users.map = RULES
        users.memberships = Memberships(system.look_up, cache_seconds)
        yield door


async def whoami(door: Door) -> Any:
    answer = await door.get("/api/v1/whoami")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("groups", "role", "tenants"),
    [
        ({"vision-team"}, "user", [OURS]),
        ({"vision-team", "speech-team"}, "user", [OURS, THEIRS]),
        ({"leads"}, "admin", [OURS]),
        ({"users"}, "user", []),
    ],
)
async def test_a_user_belongs_to_the_tenants_of_their_groups(
    groups: set[str], role: str, tenants: list[str]
) -> None:
    async with door_of(System(*groups)) as door:
        found = await whoami(door)
        assert (found["name"], found["role"], found["tenants"]) == ("ada", role, tenants)


async def test_who_leaves_a_group_sees_nothing_of_its_tenant_any_more() -> None:
    system = System("vision-team")
    async with door_of(system) as door:
        await door.submit("j", OURS)
        assert (await door.get("/api/v1/jobs/j")).status_code == 200
        system.groups = {"speech-team"}
        assert (await door.get("/api/v1/jobs/j")).status_code == 404


async def test_who_waits_is_answered_when_they_leave_the_group() -> None:
    system = System("vision-team")
    async with door_of(system) as door:
        await door.submit("held", OURS)
        await door.post("/api/v1/jobs/held/hold", headers=as_role("admin"))
        waiting = asyncio.create_task(door.get("/api/v1/jobs/held/wait?timeout=30"))
        await eventually(lambda: door.gate._calls._open, "waiting")
        system.groups.clear()
        async with asyncio.timeout(10):
            answer = await waiting
        error = answer.json()["error"]
        assert answer.status_code == 401
        assert error["message"] == "you belong to another tenant now: ask again"


def test_names_of_roles_are_those_of_the_service() -> None:
    assert allowed_at(("auth", "map", 0, "role")) == "one of " + ", ".join(Role)
