"""The kernel says who is at the other end of a connection over loopback."""

import os
import socket
import struct
from collections.abc import Iterator

import pytest

from tests.unit.peers.ends import (
    AS_ROOT,
    FAMILIES,
    NOBODY,
    a_listener,
    connected,
    connected_here,
)
from tgpu.peers.lookup import Lookup
from tgpu.peers.peer import NOWHERE, Peer

WAYS = ("sock_diag", "/proc/net/tcp")


@pytest.fixture(params=WAYS)
def lookup(request: pytest.FixtureRequest) -> Iterator[Lookup]:
    made = Lookup()
    if request.param == "/proc/net/tcp":
        made._is_probed = True  # and found nothing
    else:
        made._probe()
        assert made._diag is not None, "sock_diag is to be had wherever the tests run"
    yield made
    made.close()


@AS_ROOT
@pytest.mark.parametrize("host", FAMILIES)
def test_the_owner_is_the_user_of_the_clients_process(lookup: Lookup, host: str) -> None:
    with connected(NOBODY.pw_uid, host) as (client, ours):
        origin = lookup.origin(ours)
        assert origin.peer == Peer(NOBODY.pw_uid, inode=client.inode)
        assert origin.is_here
        assert not origin.is_unix
        assert origin.address == host.removeprefix("::ffff:")


def test_our_own_process_is_found_as_ourselves(lookup: Lookup) -> None:
    with connected_here() as (client, ours):
        inode = os.fstat(client.fileno()).st_ino
        assert lookup.origin(ours).peer == Peer(os.getuid(), inode=inode)


@AS_ROOT
@pytest.mark.parametrize("host", FAMILIES)
def test_a_client_that_has_closed_is_nobody_and_never_root(lookup: Lookup, host: str) -> None:
    with connected(NOBODY.pw_uid, host) as (client, ours):
        client.close()
        origin = lookup.origin(ours)
        assert origin.is_here
        assert origin.peer is None


@AS_ROOT
def test_a_client_whose_process_has_died_is_nobody_and_never_root(lookup: Lookup) -> None:
    with connected(NOBODY.pw_uid, "127.0.0.1") as (client, ours):
        client.process.kill()
        client.process.wait()
        assert lookup.origin(ours).peer is None


def test_a_client_that_only_ended_its_sending_is_still_known(lookup: Lookup) -> None:
    with connected_here() as (client, ours):
        client.shutdown(socket.SHUT_WR)
        assert lookup.origin(ours).peer is not None


def test_who_listens_on_the_port_of_a_client_that_has_gone_is_not_taken_for_it(
    lookup: Lookup,
) -> None:
    """The kernel answers the question about an end that is gone with who listens there."""
    with connected_here() as (client, ours), socket.socket() as other:
        address = client.getsockname()
        client.close()
        ours_was = _Remembering(ours, ours.getsockname(), address)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(address)
        other.listen()
        assert lookup.origin(ours_was).peer is None


def test_another_connection_with_the_same_addresses_is_not_taken_for_one_that_was_reset(
    lookup: Lookup,
) -> None:
    """Who sends and resets must not be taken for whoever gets the same port next."""
    with a_listener("127.0.0.1") as listening, connected_here(listening) as (client, ours):
        client.send(b"a request")
        was = _Remembering(ours, ours.getsockname(), ours.getpeername())
        port = client.getsockname()[1]
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        with connected_here(listening, port) as (_, fresh):
            assert lookup.origin(was).peer is None
            assert lookup.origin(fresh).peer is not None


def test_other_machines_are_not_here() -> None:
    class Remote:
        family = socket.AF_INET

        def getsockname(self) -> tuple[str, int]:
            return "192.0.2.1", 8080

        def getpeername(self) -> tuple[str, int]:
            return "192.0.2.77", 40_000

    origin = Lookup().origin(Remote())
    assert (origin.address, origin.is_here, origin.peer) == ("192.0.2.77", False, None)


def test_what_is_no_socket_comes_from_nowhere() -> None:
    assert Lookup().origin(None) == NOWHERE


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_call_of_which_only_the_address_is_known_has_an_owner(lookup: Lookup, host: str) -> None:
    with connected(NOBODY.pw_uid if os.geteuid() == 0 else os.getuid(), host) as (client, ours):
        port, our_port = ours.getpeername()[1], ours.getsockname()[1]
        known = lookup.origin_of_call(host, port, (host,), our_port)
        assert known.peer is not None
        assert known.peer.inode == client.inode
        either = lookup.origin_of_call(host, port, ("::1", "127.0.0.1"), our_port)
        assert either.peer == known.peer
        assert lookup.origin_of_call(host, port + 1, (host,), our_port).peer is None
        client.close()
        assert lookup.origin_of_call(host, port, (host,), our_port).peer is None


def test_a_unix_socket_tells_its_process_at_once() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        origin = Lookup().origin(ours)
        assert (origin.is_unix, origin.is_here) == (True, True)
        assert origin.peer == Peer(os.getuid(), pid=os.getpid())


class _Remembering:
    """A connection as an event loop shows it, with the addresses it once had."""

    family = socket.AF_INET

    def __init__(self, real: socket.socket, name: object, other: object) -> None:
        self._real, self._name, self._other = real, name, other

    def getsockname(self) -> object:
        return self._name

    def getpeername(self) -> object:
        return self._other

    def getsockopt(self, *which: int) -> object:
        return self._real.getsockopt(*which)
