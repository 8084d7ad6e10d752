"""Who is served without a key, by the connection they come over."""

import threading

import pytest

from tgpu.api.auth.authenticator import Authenticator
from tgpu.api.auth.doors import DoorRules, NotServed, behind_gateway
from tgpu.app.doors import door_rules
from tgpu.app.refusal import CannotServe
from tgpu.core.errors import Unauthenticated
from tgpu.peers.peer import UNIX, Origin, Peer
from tgpu.peers.users import Membership
from tgpu.service.identity.memberships import Memberships
from tgpu.settings import Settings

ROOT, OWNER, OTHER = 0, 4001, 4002


def tcp(uid: int | None) -> Origin:
    peer = None if uid is None else Peer(uid, inode=7)
    return Origin("127.0.0.1", is_here=True, peer=peer)


def unix(uid: int) -> Origin:
    return Origin(UNIX, is_here=True, peer=Peer(uid, pid=7))


REMOTE = Origin("192.0.2.7", is_here=False)


@pytest.mark.parametrize("way", [tcp, unix])
def test_without_keys_an_ordinary_users_service_is_theirs_and_roots(way):
    rules = DoorRules(OWNER, enabled=False)
    for uid in (ROOT, OWNER):
        assert rules.peer(way(uid), {}) == way(uid).peer
        assert rules.is_owner(uid)
    with pytest.raises(NotServed, match=r"cannot run jobs as 4002; turn on API keys"):
        rules.peer(way(OTHER), {})


def test_without_keys_who_cannot_be_known_is_not_served():
    rules = DoorRules(OWNER, enabled=False)
    for unknown in (tcp(None), REMOTE):
        with pytest.raises(NotServed, match="the kernel does not tell"):
            rules.peer(unknown, {})


@pytest.mark.parametrize("header", ["forwarded", "via", "x-forwarded-for", "x-real-ip"])
def test_what_was_passed_on_is_not_its_bearers(header):
    with pytest.raises(NotServed, match="a proxy forwarded this request"):
        DoorRules(ROOT, enabled=False, local_users=True).peer(tcp(ROOT), {header: "x"})
    with pytest.raises(Unauthenticated):
        DoorRules(ROOT, enabled=True, local_users=True).peer(unix(ROOT), {header: "x"})


@pytest.mark.parametrize("way", [tcp, unix])
@pytest.mark.parametrize("enabled", [True, False])
def test_root_serves_local_users_where_it_is_said(way, enabled):
    rules = DoorRules(ROOT, enabled=enabled, local_users=True)
    assert rules.peer(way(OTHER), {}) == way(OTHER).peer
    assert not rules.is_owner(OTHER)


def test_with_keys_tcp_takes_one_where_local_users_are_not_served():
    rules = DoorRules(OWNER, enabled=True)
    with pytest.raises(Unauthenticated):
        rules.peer(tcp(OWNER), {})
    assert rules.peer(unix(OWNER), {}) == Peer(OWNER, pid=7)


def test_those_who_insisted_serve_other_machines_and_still_know_this_one():
    rules = DoorRules(OWNER, enabled=False, strangers=True)
    assert rules.peer(REMOTE, {}) is None
    for unwanted, headers in ((tcp(None), {}), (tcp(OTHER), {}), (tcp(OTHER), {"via": "x"})):
        with pytest.raises(NotServed):
            rules.peer(unwanted, headers)


def test_behind_a_gateway_the_callers_own_socket_tells_whether_it_is_a_job():
    gateways = unix(OWNER)
    assert behind_gateway(gateways, {}) is gateways
    for said in ("0", "", "x", "-7", "²"):
        assert behind_gateway(gateways, {"x-tgpu-caller": said}) is gateways
    told = behind_gateway(gateways, {"x-tgpu-caller": "4711"})
    assert told.peer == Peer(OWNER, inode=4711)
    assert told.facts is not gateways.facts


def test_with_keys_a_gateway_lends_nothing():
    with pytest.raises(Unauthenticated):
        DoorRules(ROOT, enabled=True, local_users=True).peer(unix(ROOT), {"x-tgpu-caller": "7"})


def settings(**sections) -> Settings:
    return Settings.model_validate(sections)


INSECURE = {"host": "0.0.0.0", "insecure_listen": True}


@pytest.mark.parametrize(
    ("uid", "sections", "sentence"),
    [
        (ROOT, {"auth": {"local_users": False}}, "this service runs as root and listens on TCP"),
        (OWNER, {"auth": {"local_users": True}}, "runs as 4001 and cannot run jobs as anybody"),
        (OWNER, {"auth": {"local_users": True, "enabled": True}}, "cannot run jobs as anybody"),
        (ROOT, {"api": INSECURE}, "would let anyone who reaches 0.0.0.0:8080 run commands as root"),
        (ROOT, {"api": INSECURE, "engine": {"run_as": "nobody"}}, "run commands as root"),
    ],
)
def test_what_would_serve_the_wrong_people_does_not_start(uid, sections, sentence):
    with pytest.raises(CannotServe, match=sentence):
        door_rules(settings(**sections), uid)


@pytest.mark.parametrize(
    ("uid", "sections", "expected"),
    [
        (ROOT, {}, DoorRules(ROOT, enabled=False, local_users=True)),
        (OWNER, {}, DoorRules(OWNER, enabled=False)),
        (ROOT, {"auth": {"enabled": True}}, DoorRules(ROOT, enabled=True, local_users=True)),
        (OWNER, {"auth": {"enabled": True}}, DoorRules(OWNER, enabled=True)),
        (
            ROOT,
            {"auth": {"enabled": True, "local_users": False}},
            DoorRules(ROOT, enabled=True),
        ),
        # Reached by its socket alone: a personal service, also root's.
        (
            ROOT,
            {"api": {"http_port": 0, "socket": "/run/x.sock"}},
            DoorRules(ROOT, enabled=False),
        ),
        (OWNER, {"api": INSECURE}, DoorRules(OWNER, enabled=False, strangers=True)),
        (
            ROOT,
            {"api": INSECURE, "engine": {"kind": "none"}},
            DoorRules(ROOT, enabled=False, local_users=True, strangers=True),
        ),
    ],
)
def test_what_settings_say_about_callers(uid, sections, expected):
    assert door_rules(settings(**sections), uid) == expected


async def test_a_stranger_whose_name_the_system_does_not_tell_is_refused_by_number() -> None:
    """And keeps nobody waiting: names are looked up off the loop, and not for ever."""
    hangs = threading.Event()

    def look_up(uid: int) -> Membership:
        hangs.wait()
        return Membership("late")

    rules = DoorRules(OWNER, enabled=False)
    authenticator = Authenticator(lambda: None, rules)
    authenticator._names = Memberships(look_up, patience=0.05)
    try:
        for _ in range(2):
            with pytest.raises(NotServed, match=f"cannot run jobs as {OTHER};"):
                await authenticator.authenticate({}, unix(OTHER))
    finally:
        hangs.set()
