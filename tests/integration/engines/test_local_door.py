"""A supervisor whose directory or socket is removed under it."""

import os
import shutil

from tests.integration.engines.box import Box, until
from tgpu.engines.local.paths import SOCKET


async def test_the_supervisor_of_a_removed_directory_leaves_the_next_one_alone(box: Box) -> None:
    old = await box.engine(idle_seconds=2.0)
    old_pid = old.supervisor_pid
    await old.close()
    shutil.rmtree(box.directory)
    engine = await box.engine()
    assert engine.supervisor_pid != old_pid
    await engine.launch([box.shell("j", "sleep 60")])
    await box.running(engine, "j")

    async def is_gone() -> bool:
        return old_pid not in box.processes()

    await until(is_gone, "the supervisor of the removed directory to end")
    again = await box.engine()
    assert again.supervisor_pid == engine.supervisor_pid
    assert (await box.running(again, "j")).pid


async def test_a_socket_that_somebody_removed_is_made_again(box: Box) -> None:
    engine = await box.engine(idle_seconds=2.0)
    await engine.launch([box.shell("j", "sleep 60")])
    await box.running(engine, "j")
    pid = engine.supervisor_pid
    await engine.close()
    os.unlink(box.directory / SOCKET)

    async def is_there() -> bool:
        return (box.directory / SOCKET).exists()

    await until(is_there, "a new socket")
    again = await box.engine()
    assert again.supervisor_pid == pid
