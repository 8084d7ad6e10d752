import asyncio
import os
import subprocess
from contextlib import closing

from tests.unit.peers.ends import AS_ROOT, NOBODY, connected, connected_here
from tgpu.peers.lookup import Lookup
from tgpu.peers.peer import Peer
from tgpu.peers.processes import holders, processes_of


@AS_ROOT
def test_the_process_behind_a_connection_is_found_by_its_socket() -> None:
    with connected(NOBODY.pw_uid, "127.0.0.1") as (client, ours):
        with closing(Lookup()) as lookup:
            peer = lookup.origin(ours).peer
        assert peer is not None
        assert asyncio.run(processes_of(peer)) == {client.pid}
        client.close()
        assert asyncio.run(processes_of(peer)) == frozenset()


def test_everybody_who_holds_the_socket_counts() -> None:
    with (
        connected_here() as (client, _),
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[client.fileno()]) as other,
    ):
        assert holders(os.fstat(client.fileno()).st_ino) == {os.getpid(), other.pid}
        assert other.stdin is not None
        other.stdin.close()


def test_over_a_unix_socket_it_is_who_connected() -> None:
    assert asyncio.run(processes_of(Peer(1000, pid=77))) == {77}


def test_without_a_socket_there_is_nobody() -> None:
    assert asyncio.run(processes_of(Peer(1000))) == frozenset()
