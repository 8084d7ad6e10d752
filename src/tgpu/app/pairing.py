"""Pairs a database with a data directory on an operator's command, without a service.

The one place where attempts are ended that no database knows, or those of another machine are given
up: both only because somebody said so.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tgpu.app.compose import local_engine
from tgpu.app.listen import data_directory
from tgpu.app.refusal import CannotServe
from tgpu.core.errors import SchedulerError
from tgpu.core.model.lifecycle import PLACED
from tgpu.core.state.cluster_state import State
from tgpu.database import make_store
from tgpu.engines.api import AttemptKey, Engine, EngineUnavailable, Observation
from tgpu.service.execution.pairing import Sides, join, read_sides, take_over
from tgpu.service.execution.strangers import Strangers
from tgpu.settings import Settings
from tgpu.store.api import LoadedState, Store

_LOOK_SECONDS = 0.1
_END_SECONDS = 120.0  # a job's grace is seconds; one that the kernel holds may take for ever


@dataclass(frozen=True, slots=True)
class Paired:
    """What was found, and what was done about it."""

    store: str
    directory: str
    engine: str
    was_paired: bool  # before
    is_paired: bool  # now
    unknown: tuple[Observation, ...]  # that run, and the database does not know
    ended: int
    given_up: tuple[str, ...]  # jobs that another engine had


@dataclass(frozen=True, slots=True)
class Orders:
    """What an operator says about jobs that are on one side alone."""

    keep: bool = False  # those that the database does not know run to their end
    end: bool = False
    take_over: bool = False  # what another engine has is lost


def pair(settings: Settings, orders: Orders) -> Paired:
    """Refuses, with CannotServe, what would end or give up something that nobody named."""
    with data_directory(settings) as data_dir:
        try:
            return asyncio.run(_pair(settings, data_dir, orders))
        except (SchedulerError, EngineUnavailable) as error:
            raise CannotServe(str(error)) from error


async def _pair(settings: Settings, data_dir: Path, orders: Orders) -> Paired:
    engine = local_engine(data_dir)
    found = await engine.pairing()
    if found.database and not found.is_durable:
        # Used with a database in memory: the next start pairs by itself once nothing runs.
        settings = settings.model_copy(
            update={"database": settings.database.model_copy(update={"kind": "memory"})}
        )
    store = make_store(settings)
    try:
        loaded = await store.open()
        sides = await read_sides(store, found)
        await engine.open()
        unknown = await _unknown(store, engine)
        running = [seen for seen in unknown if not seen.is_over]
        was = sides.are_partners and loaded.last_seq >= found.seq and not _is_another(sides)
        place = found.place
        if orders == Orders():
            return Paired(store.name, place, found.engine, was, was, tuple(running), 0, ())
        _check(store, sides, running, orders)
        if orders.end:
            epoch = await take_over(store, engine)
            await _end(engine, [seen.key for seen in running], epoch)
        if store.is_durable:
            await join(store, engine, sides, loaded.last_seq)
        ended = len(running) if orders.end else 0
        given_up = tuple(_of_another_engine(sides, loaded))
        return Paired(store.name, place, found.engine, was, True, tuple(running), ended, given_up)
    finally:
        await engine.close()
        await store.close()


def _check(store: Store, sides: Sides, running: Sequence[Observation], orders: Orders) -> None:
    partner = sides.partner
    if partner is not None and _is_another(sides) and not orders.take_over:
        raise CannotServe(
            f"{store.name} belongs to another data directory ({partner.place} on "
            f"{partner.host}): --take-over declares its running jobs lost; use it only if that "
            "machine is dead or none of its jobs runs any more"
        )
    if running and not (orders.keep or orders.end):
        names = ", ".join(seen.key.job_id for seen in running[:5])
        raise CannotServe(
            f"jobs run here that {store.name} does not know ({names}): use --keep-unknown to let "
            "them run to their end, or --end-unknown to kill them"
        )


async def _unknown(store: Store, engine: Engine) -> list[Observation]:
    observed = await engine.observe()
    keys = await Strangers(State(), store).unknown(seen.key for seen in observed)
    return [seen for seen in observed if seen.key in keys]


def _is_another(sides: Sides) -> bool:
    engine = sides.engine
    moved = bool(engine.machine and engine.machine != engine.this_machine)
    return sides.partner is not None and (sides.partner.engine != engine.engine or moved)


def _of_another_engine(sides: Sides, loaded: LoadedState) -> list[str]:
    if not _is_another(sides):
        return []
    return [
        job.job_id
        for job, progress in loaded.live
        if progress.state in PLACED and not job.options.lease
    ]


async def _end(engine: Engine, keys: Sequence[AttemptKey], epoch: int) -> None:
    await engine.stop(keys, epoch=epoch)
    deadline = asyncio.get_running_loop().time() + _END_SECONDS
    while True:
        running = {s.key for s in await engine.observe() if not s.is_over}
        left = [key for key in keys if key in running]
        if not left:
            return
        if asyncio.get_running_loop().time() > deadline:
            names = ", ".join(key.job_id for key in left[:5])
            raise CannotServe(
                f"these jobs do not end: {names}; look at their processes, then retry"
            )
        await asyncio.sleep(_LOOK_SECONDS)
