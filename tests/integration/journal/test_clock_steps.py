"""A journal in which the clock was set: it is rebuilt, replayed and lived again exactly."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.journal.history import Player, a_service, lines_of
from tests.integration.journal.test_journal_is_the_service import replayed
from tgpu.app import whatif
from tgpu.app.whatif import past_of
from tgpu.core.model.events import ClockStepped
from tgpu.core.state.clock_step import moved_by
from tgpu.core.state.cluster_state import State
from tgpu.core.state.digest import digest
from tgpu.journal.lines import Journal
from tgpu.journal.rebuild import rebuild
from tgpu.journal.resimulate import resimulate
from tgpu.service.recording.clock import ManualClock
from tgpu.service.recording.writer import Decision
from tgpu.service.service import Service

HOUR = 3_600_000
STEPS = (5 * HOUR, -2 * HOUR, -9 * HOUR, 1_500)


async def set_clock(service: Service, player: Player, by: int) -> None:
    """As the service does it where the wall clock was set."""
    assert isinstance(service.clock, ManualClock)
    player.now += by
    player.ends = {job_id: at + by for job_id, at in player.ends.items()}

    def decide(state: State) -> Decision[None]:
        return Decision(None, [ClockStepped(player.now, by, moved_by(state, by))])

    await service.writer.do(decide, None)
    service.clock.set(player.now)


async def a_history(directory: Path, settings: dict[str, Any]) -> tuple[list[bytes], str]:
    player = Player(seed=11)
    async with a_service(directory, {"database.kind": "memory", **settings}) as service:
        for by in STEPS:
            await player.play(service, 25)
            await set_clock(service, player, by)
        await player.play(service, 25)
        return await lines_of(service), digest(service.state)


@pytest.mark.parametrize("policy", ["fifo", "fairshare", "priority"])
async def test_state_and_decisions_are_what_they_were(policy: str, tmp_path: Path) -> None:
    lines, live = await a_history(tmp_path, {"scheduler.policy": policy})
    assert digest(rebuild(Journal("test", lines)).state) == live
    assert len(replayed(lines)) > 15


async def test_lived_again_every_job_starts_and_ends_as_it_did(tmp_path: Path) -> None:
    lines, _ = await a_history(tmp_path, {"scheduler.policy": "fifo"})
    past = past_of(Journal("test", lines), None, None)
    assert past is not None
    lived = resimulate(past, whatif._maker({}))
    unlike = [
        job_id
        for job_id, fate in lived.fates.items()
        if (fate.first_start, fate.ended_at)
        != (past.lives[job_id].first_start, past.lives[job_id].ended_at)
    ]
    assert unlike == []
