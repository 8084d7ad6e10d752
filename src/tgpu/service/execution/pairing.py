"""Checks at start that database and engine belong together, before anything is reconciled.

Reconciling with the wrong partner would end jobs that run, or start them a second time. So each of
the two has a random name and keeps that of the other; an engine also keeps how far the database was
when it last launched something, which tells a database that was put back from a backup.
"""

import contextlib
import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Final

import structlog

from tgpu.core.errors import Unavailable
from tgpu.core.model.lifecycle import PLACED
from tgpu.engines.api import Engine, EngineUnavailable, Observation, Overtaken, Pairing
from tgpu.store.api import LoadedState, Record, Store, StoreUnavailable
from tgpu.text.plurals import plural

_log = structlog.get_logger("gpu_scheduler.pairing")

KIND: Final = "pairing"  # documents
_DATABASE: Final = "database"  # what this database is called
_ENGINE: Final = "engine"  # the engine its attempts are given to
_EPOCH: Final = "epoch"  # of the last service that took the engine over
_SHOWN: Final = 5


class NotPaired(Unavailable):
    """This database and data directory do not belong together; the sentence says what to do."""


@dataclass(frozen=True, slots=True)
class Partner:
    """An engine as the database has it."""

    engine: str
    place: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Sides:
    """What each of the two says of itself and of the other."""

    database: str  # "" where it has no name yet
    partner: Partner | None
    engine: Pairing

    @property
    def is_first_time(self) -> bool:
        return self.partner is None and not self.engine.database

    @property
    def are_partners(self) -> bool:
        """Also where only one side has it on record: the process was killed in between."""
        mine = bool(self.database) and self.engine.database == self.database
        return mine and (self.partner is None or self.partner.engine == self.engine.engine)


async def read_sides(store: Store, engine: Pairing) -> Sides:
    documents = await store.documents(KIND)
    partner = json.loads(documents[_ENGINE]) if _ENGINE in documents else None
    database = documents.get(_DATABASE, b"").decode()
    return Sides(database, None if partner is None else Partner(**partner), engine)


async def join(store: Store, engine: Engine, sides: Sides, seq: int) -> None:
    """Make these two partners. Each step may be the last: the next start goes on from there."""
    name = sides.database or token_hex(16)
    if not sides.database:
        await store.commit(Record([], documents={(KIND, _DATABASE): name.encode()}))
    made = replace(sides.engine, database=name, is_durable=store.is_durable, seq=seq)
    await engine.pair(made)
    partner = {"engine": made.engine, "place": made.place, "host": platform.node()}
    text = json.dumps(partner).encode()
    await store.commit(Record([], documents={(KIND, _ENGINE): text}))


async def check(store: Store, engine: Engine, loaded: LoadedState) -> int:
    """Refuse a start that would do harm. The highest job number that the engine has seen.

    Raises NotPaired, StoreUnavailable and EngineUnavailable.
    """
    found = await engine.pairing()
    if found is None:
        return loaded.last_number
    sides = await read_sides(store, found)
    if not (sides.is_first_time or sides.are_partners):
        await _pair_anew(store, engine, sides)
    elif sides.are_partners and loaded.last_seq < found.seq:
        raise NotPaired(_older(store, sides, loaded, await _running(engine)))
    elif sides.are_partners and _is_copy(found) and _placed(loaded):
        raise NotPaired(_copied(sides, loaded))
    if not sides.are_partners or sides.partner is None or _is_copy(found):
        await join(store, engine, sides, loaded.last_seq)
    return max(loaded.last_number, found.number)


async def take_over(store: Store, engine: Engine) -> int:
    """The epoch of this service, higher than that of any before it, on record and known to the
    engine: whoever was here before and does not know it can start and stop nothing any more.

    An engine that does not answer now learns it with the first launch or stop.
    """
    before = int((await store.documents(KIND)).get(_EPOCH, b"0"))
    try:
        epoch = await _record_epoch(store, before + 1)
    except StoreUnavailable as error:
        # A full disk must not keep a service from ending jobs: the store lets in one at a time.
        _log.warning("this start cannot be recorded; going on as the last one", problem=str(error))
        epoch = before
    with contextlib.suppress(EngineUnavailable):
        try:
            await engine.launch([], epoch=epoch)
        except Overtaken as error:  # the database was put back, or is another one
            epoch = await _record_epoch(store, error.seen + 1)
            await engine.launch([], epoch=epoch)
    return epoch


async def _record_epoch(store: Store, epoch: int) -> int:
    await store.commit(Record([], documents={(KIND, _EPOCH): str(epoch).encode()}))
    return epoch


async def _pair_anew(store: Store, engine: Engine, sides: Sides) -> None:
    """What was kept in memory is gone for good: another takes its place, unless jobs run."""
    running = await _running(engine)
    if sides.engine.is_durable or sides.partner is not None or running:
        raise NotPaired(_strange(store, sides, running))
    _log.warning(
        "this data directory was used with a database in memory that is gone; it is used with"
        " another from now on, and what is left of earlier jobs stays on disk",
        database=store.name,
    )


async def _running(engine: Engine) -> list[Observation]:
    try:
        await engine.open()
        return [seen for seen in await engine.observe() if not seen.is_over]
    except EngineUnavailable as error:
        raise EngineUnavailable(f"what runs cannot be known: {error}") from error


def _is_copy(engine: Pairing) -> bool:
    return bool(engine.machine and engine.this_machine and engine.machine != engine.this_machine)


def _placed(loaded: LoadedState) -> list[str]:
    return [
        job.job_id
        for job, progress in loaded.live
        if progress.state in PLACED and not job.options.lease
    ]


# -- sentences -----------------------------------------------------------------------------------


def _strange(store: Store, sides: Sides, running: Sequence[Observation]) -> str:
    engine, partner = sides.engine, sides.partner
    if engine.is_new and partner is not None:
        return (
            f"{store.name} was last used with another data directory, {partner.place} on"
            f" {partner.host} (engine {partner.engine}), and {engine.place} is new: jobs that run"
            " there would be taken for lost and started again here. Nothing was changed. Start the"
            " service with that directory; or, if it is gone or that machine is dead for good,"
            f" declare what ran there lost: {_command(engine)} --take-over"
        )
    if partner is not None and partner.engine != engine.engine:
        theirs = f", which is used with database {engine.database}" if engine.database else ""
        return (
            f"{store.name} was last used with another data directory, {partner.place} on"
            f" {partner.host} (engine {partner.engine}), and not with {engine.place} (engine"
            f" {engine.engine}){theirs}. Nothing was changed. Start the service with the"
            " directory that belongs to it; or, if that one is gone for good, declare what ran"
            f" there lost: {_command(engine)} --take-over"
        )
    is_new = "new, or of an earlier version" if not sides.database else f"database {sides.database}"
    if not engine.is_durable:
        return (
            f"the data directory {engine.place} was used with a database in memory that is gone,"
            f" and {_said(running)}. Nothing was changed. Wait until they end, or end them:"
            f" {_command(engine)} --end-unknown; or take another data directory (--data-dir)"
        )
    return (
        f"the data directory {engine.place} is used with database {engine.database}, and"
        f" {store.name} is another one ({is_new}); {_said(running)}. Nothing was changed. Put the"
        " right database back; or continue with this one, and let jobs that it does not know"
        f" run to their end: {_command(engine)} --keep-unknown; or kill them:"
        f" {_command(engine)} --end-unknown"
    )


def _older(store: Store, sides: Sides, loaded: LoadedState, running: Sequence[Observation]) -> str:
    engine = sides.engine
    return (
        f"{store.name} is older than the data directory: its journal ends at {loaded.last_seq},"
        f" and jobs were started up to {engine.seq}. It was restored from a backup, or another copy"
        f" of it is in use; {_said(running)}. Nothing was changed. Put the newest database"
        " back; or continue with this one, and let jobs that it does not know run to their end:"
        f" {_command(engine)} --keep-unknown; or kill them: {_command(engine)} --end-unknown"
    )


def _copied(sides: Sides, loaded: LoadedState) -> str:
    partner, jobs = sides.partner, _placed(loaded)
    host = f" {partner.host}" if partner is not None and partner.host else ""
    names = ", ".join(jobs[:_SHOWN]) + (" …" if len(jobs) > _SHOWN else "")
    return (
        f"this data directory was copied from another machine{host}, on which "
        f"{plural(len(jobs), 'job')} may"
        f" still run ({names}): they would be started again here. Nothing was changed. Go on there;"
        " or, once nothing of it runs there any more, declare what ran there lost:"
        f" {_command(sides.engine)} --take-over"
    )


def _said(running: Sequence[Observation]) -> str:
    if not running:
        return "no job runs in it"
    names = ", ".join(f"{seen.key.job_id}{seen.known_as}" for seen in running[:_SHOWN])
    more = f" and {len(running) - _SHOWN} more" if len(running) > _SHOWN else ""
    return f"jobs run in it: {names}{more}"


def _command(engine: Pairing) -> str:
    return f"tgpu db pair --data-dir {engine.place}"
