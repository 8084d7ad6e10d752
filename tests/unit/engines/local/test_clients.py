"""The supervisor's end of its socket, without descriptors for those who come."""

import errno
import os
import socket
from pathlib import Path

import pytest

from tgpu.engines.local import clients as clients_module
from tgpu.engines.local.clients import Clients
from tgpu.engines.local.loop import Loop
from tgpu.engines.local.protocol import Key, Notice, Seen


class _Nothing:
    epoch = 0

    def take_over(self, epoch: int) -> None: ...

    def launch(self, key: Key, grace_ms: int, time_limit_ms: int | None, line: bytes) -> None: ...

    def stop(self, keys: list[Key], notice: Notice | None) -> None: ...

    def pause(self, keys: list[Key], paused: bool) -> None: ...

    def forget(self, keys: list[Key]) -> None: ...

    def everything(self) -> list[Seen]:
        return []

    def quit(self) -> None: ...


class _Listener(socket.socket):
    tries = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.tries += 1
        if self.tries == 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


def test_who_cannot_be_let_in_waits_and_nobody_spins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients_module, "ASK_AGAIN_SECONDS", 0.01)
    with _Listener(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as caller:
        listener.bind(str(tmp_path / "s"))
        listener.listen(4)
        caller.connect(str(tmp_path / "s"))
        loop = Loop()
        clients = Clients(loop, listener, _Nothing())
        loop.turn(wait=True)
        loop.turn(wait=False)
        assert (listener.tries, len(clients)) == (1, 0)
        while not len(clients):
            loop.turn(wait=True)
        assert listener.tries == 2
        caller.close()
        while len(clients):
            loop.turn(wait=True)
