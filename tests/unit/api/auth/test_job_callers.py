"""Who a caller is whose process may belong to a job: marks that are forged, processes unseen."""

import os
import pwd
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.service.world import a_box, a_submission
from tgpu.api.auth import job_callers
from tgpu.api.auth.authenticator import Authenticator
from tgpu.api.auth.doors import DoorRules
from tgpu.api.auth.job_callers import JobCallers
from tgpu.core.errors import Forbidden
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import Tenant
from tgpu.engines.api import AttemptKey, JobMark, Traced
from tgpu.engines.fake import FakeEngine
from tgpu.engines.local.lineage import UNSEEN, Lineage, traced_by
from tgpu.peers.peer import UNIX, Origin, Peer
from tgpu.service.identity.caller import LOCAL, Principal, Role
from tgpu.service.identity.user_map import MapRule, UserMap
from tgpu.service.service import Service

GAMES = pwd.getpwnam("games").pw_uid
RED = TenantId("red")
OWNER = LOCAL
NOT_OURS = Traced()
PLAIN = Lineage((50, 1), is_whole=True)


class Engine(FakeEngine):
    """Its callers come from where `lineage` says, and their ancestors from where `started` does."""

    def __init__(self, lineage: Lineage, started: Traced) -> None:
        super().__init__()
        self.lineage = lineage
        self.started = started

    def traced(self, pid: int) -> Traced:
        return traced_by(self.lineage, self.started, self.log_dir)

    def log_dir(self, key: AttemptKey) -> str:
        return f"/d/jobs/{key.job_id}/{key.attempt}"


@asynccontextmanager
async def a_service(
    lineage: Lineage, traced: Traced = NOT_OURS, **detail: Any
) -> AsyncIterator[Service]:
    """With a job 7 of tenant red, and callers who come from where `lineage` says."""
    async with a_box(engine=Engine(lineage, traced), tenants=(Tenant(RED),)) as box:
        wanted = a_submission("true", job_id="7", tenant="red")
        fields = {"owner": "local", "user": "ada", **detail}
        await box.submit(replace(wanted, detail=replace(wanted.detail, **fields)))
        yield box.service


def marked(job_id: str = "7", folder: str = "/d/jobs/7/1") -> Lineage:
    return replace(PLAIN, marks=(JobMark(AttemptKey(job_id, 1), folder),))


def origin(uid: int = os.geteuid()) -> Origin:
    return Origin(UNIX, is_here=True, peer=Peer(uid, pid=50))


async def known_as(service: Service, uid: int = os.geteuid(), own_uid: int = -1) -> Principal:
    own = os.geteuid() if own_uid == -1 else own_uid
    return await JobCallers(own).known_as(service, origin(uid), OWNER)


async def test_who_is_in_no_job_is_who_they_are() -> None:
    async with a_service(PLAIN) as service:
        assert await known_as(service) is OWNER


@pytest.mark.parametrize("folder", ["/d/jobs/7/1", "/d/jobs/7/1/worker-0"])
async def test_a_marked_process_is_the_job(folder: str) -> None:
    async with a_service(marked(folder=folder)) as service:
        found = await known_as(service)
        assert (found.kind, found.role, found.tenants) == ("job", Role.USER, frozenset({RED}))
        assert (found.name, found.actor, found.owner) == ("ada", "job:7", "local")


async def test_by_its_ancestors_it_is_the_job_whatever_its_user() -> None:
    traced = Traced(True, AttemptKey("7", 1))
    async with a_service(PLAIN, traced, uid=GAMES) as service:
        found = await known_as(service)  # as by sudo
        assert (found.kind, found.uid) == ("job", GAMES)


async def test_a_forged_mark_makes_nobody_another_users_job() -> None:
    async with a_service(marked(), uid=GAMES + 1) as service:
        bob = Principal("games", Role.USER, frozenset({TenantId("blue")}), GAMES, "uid")
        found = await JobCallers(0).known_as(service, origin(GAMES), bob)
        assert found is bob


@pytest.mark.parametrize(
    "lineage", [marked(folder="/d/jobs/71/1"), marked("nope", "/x"), marked("../7", "/d/jobs/7/1")]
)
async def test_marks_of_others_say_nothing(
    lineage: Lineage,
) -> None:
    async with a_service(lineage) as service:
        assert await known_as(service) is OWNER


@pytest.mark.parametrize(
    ("lineage", "traced"),
    [
        (UNSEEN, Traced()),
        (replace(PLAIN, is_whole=False), Traced()),
        (PLAIN, Traced(True)),
        (PLAIN, Traced(True, AttemptKey("8", 1))),
        (replace(PLAIN, group=AttemptKey("8", 1)), Traced()),
    ],
    ids=["gone", "hidden", "of some job", "of a job unknown", "in a group"],
)
async def test_who_cannot_be_told_is_never_an_admin(lineage: Lineage, traced: Traced) -> None:
    async with a_service(lineage, traced) as service:
        with pytest.raises(Forbidden):
            await known_as(service)
        user = Principal("games", Role.USER, frozenset({RED}), GAMES, "uid")
        assert await JobCallers(0).known_as(service, origin(GAMES), user) is user


async def test_root_is_not_hidden_from_a_service_that_cannot_look_at_it() -> None:
    async with a_service(UNSEEN) as service:
        assert await known_as(service, uid=0, own_uid=GAMES) is OWNER


async def test_it_is_asked_once_for_a_connection() -> None:
    async with a_service(marked()) as service:
        connection = origin()
        first = await JobCallers(os.geteuid()).known_as(service, connection, OWNER)
        assert isinstance(service.engine, Engine)
        service.engine.lineage = PLAIN
        assert await JobCallers(os.geteuid()).known_as(service, connection, OWNER) == first


async def test_where_nothing_is_run_nobody_is_a_job() -> None:
    async with a_box(leases=True) as box:
        assert await known_as(box.service) is OWNER


@pytest.mark.parametrize(("uid", "kind"), [(0, "job"), (GAMES, "uid")])
async def test_only_the_owner_says_which_connection_a_gateway_passes_on(
    monkeypatch: pytest.MonkeyPatch, uid: int, kind: str
) -> None:
    """Or any user could name the socket of another's job, and be that job."""

    async def holders(peer: Peer) -> frozenset[int]:
        return frozenset({peer.inode or 0})

    def traced(pid: int) -> Traced:
        started = Traced(True, AttemptKey("7", 1)) if pid == 777 else NOT_OURS
        return started._replace(pids=(pid, 1), is_whole=True)

    async with a_service(PLAIN, uid=GAMES + 1) as service:
        monkeypatch.setattr(job_callers, "processes_of", holders)
        monkeypatch.setattr(service.engine, "traced", traced)
        # Also an admin by a map is not the owner.
        service.run_as.users.map = UserMap((MapRule(("blue",), Role.ADMIN, user="games"),))
        rules = DoorRules(0, enabled=False, local_users=True)
        connection = Origin("127.0.0.1", is_here=True, peer=Peer(uid, inode=50))
        caller = await Authenticator(lambda: service, rules).authenticate(
            {"x-tgpu-caller": "777"}, connection
        )
        assert caller.kind == kind
