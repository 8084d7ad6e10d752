"""Users and groups of this machine as tenants' people: through the gate, and as they change."""

import asyncio
import os
import pwd
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.auth.door import OURS, THEIRS, Door, a_door, as_role
from tests.other_users import AS_ROOT, GAMES, NOBODY, call_as
from tests.real_service import RealService
from tests.unit.service.eventually import eventually
from tgpu.api.auth.doors import DoorRules
from tgpu.peers.peer import Origin, Peer
from tgpu.peers.users import Membership
from tgpu.service.execution.attempts import LaunchSettings
from tgpu.service.identity.caller import Role
from tgpu.service.identity.memberships import Memberships
from tgpu.service.identity.run_as import RunAsRules
from tgpu.service.identity.user_map import NO_MAP, MapRule, UserMap
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
        assert error["message"] == "you belong to another tenant now: connect again"


async def submit(door: Door, **fields: Any) -> Any:
    return await door.post("/api/v1/jobs", json={"gpu_count": 1, **fields})


async def test_a_caller_with_one_tenant_need_not_name_it() -> None:
    async with door_of(System("vision-team")) as door:
        answer = await submit(door)
        assert answer.status_code == 201, answer.text
        job = (await door.get(f"/api/v1/jobs/{answer.json()['job_id']}")).json()
        assert (job["tenant_id"], job["user"]) == (OURS, "ada")
        assert (await whoami(door))["tenant"] == OURS
        booked = await door.post("/api/v1/reservations", json={"gpus": 1, "minutes": 5})
        assert (booked.status_code, booked.json()["tenant_id"]) == (201, OURS)


async def test_with_several_they_say_which() -> None:
    async with door_of(System("vision-team", "speech-team")) as door:
        unsaid = await submit(door)
        assert unsaid.status_code == 422
        assert "You may use ours, theirs" in unsaid.json()["error"]["message"]
        assert (await submit(door, tenant_id=THEIRS)).status_code == 201
        wrong = await submit(door, tenant_id="other")
        assert "you may use: ours, theirs (got 'other')" in wrong.json()["error"]["message"]


async def test_who_belongs_to_no_tenant_is_told_what_there_is_and_whom_to_ask() -> None:
    sentence = (
        "ada belongs to no tenant here (no rule of auth.map matches ada or a group of theirs: "
        "users); there are: ours, theirs. Ask the administrator (root) for a rule in auth.map, "
        "or to be put into one of these groups: vision-team, speech-team, leads"
    )
    async with door_of(System("users")) as door:
        for body in ({}, {"tenant_id": OURS}):
            refused = await submit(door, **body)
            assert (refused.status_code, refused.json()["error"]["message"]) == (403, sentence)
        assert (await whoami(door))["problem"] == sentence


async def test_without_a_map_they_are_told_to_have_one() -> None:
    """The documented file of a team has no tenant `default`."""
    async with door_of(System()) as door:
        door.box.service.run_as.users.map = NO_MAP
        message = (await submit(door)).json()["error"]["message"]
    assert message == (
        "ada belongs to no tenant here (none is named ada or default); there are: ours, theirs. "
        "Ask the administrator (root) to assign users to tenants in auth.map of the settings"
    )


@AS_ROOT
def test_a_real_service_asks_the_system_for_groups() -> None:
    """Over loopback, as root runs it: jobs are of the tenant and run as the caller."""
    rules = [
        {"group": "games", "tenants": ["play"]},
        {"user": "nobody", "tenants": ["play", "work"]},
    ]
    tenants = [{"tenant_id": "play"}, {"tenant_id": "work"}]
    settings = {"auth": {"map": rules}}
    place = Path(tempfile.mkdtemp(prefix="tgpu-map-"))
    place.chmod(0o755)
    try:
        with RealService(place / "service", settings=settings, tenants=tenants) as service:
            service.start()
            address = ("127.0.0.1", service.port)
            job = {"command": ["id", "-un"], "working_dir": "/"}
            status, made = call_as(GAMES.pw_uid, address, "POST", "/api/v1/jobs", job)
            assert status == 201, made
            found = service.end(made["job_id"])
            assert (found["tenant_id"], found["exit_code"]) == ("play", 0)
            status, refused = call_as(NOBODY.pw_uid, address, "POST", "/api/v1/jobs", job)
            assert (status, "use play, work;" in refused["error"]["message"]) == (422, True)
            backup = pwd.getpwnam("backup").pw_uid
            assert call_as(backup, address, "POST", "/api/v1/jobs", job)[0] == 403
    finally:
        shutil.rmtree(place)


def test_names_of_roles_are_those_of_the_service() -> None:
    assert allowed_at(("auth", "map", 0, "role")) == "one of " + ", ".join(Role)
