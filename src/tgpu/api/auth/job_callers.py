"""Callers inside jobs: they have the rights of their job, and are never admins.

Whatever its user is: jobs of a service without authentication run as its owner, and what runs in a
job is not its owner. Asked once for each connection, before the first request is answered.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tgpu.core.errors import Forbidden
from tgpu.core.model.ids import JobId
from tgpu.engines.api import AttemptKey, Engine, Traced
from tgpu.peers.peer import Origin, Peer
from tgpu.peers.processes import processes_of
from tgpu.service.identity.caller import Principal, Role
from tgpu.service.service import Service
from tgpu.store.api import StoredJob

_FACT: Final = "job_caller"
_GONE: Final = (
    "the process that made this connection is not known, so it does not have the "
    "owner's rights: call from a process that lives until the answer, or use an API "
    "key"
)
_UNKNOWN: Final = (
    "this process belongs to a job, but it is not known to which: try again in a "
    "moment, or use an API key"
)


class JobCallers:
    def __init__(self, own_uid: int) -> None:
        self._own_uid = own_uid

    async def known_as(self, service: Service, origin: Origin, otherwise: Principal) -> Principal:
        """The job that calls, or `otherwise`. Raises Forbidden where nobody can say, and it would
        be an admin."""
        engine = service.engine
        if engine is None or not engine.capabilities.local_processes or origin.peer is None:
            return otherwise  # nothing is run here, or the caller is on another machine
        if _FACT not in origin.facts:
            origin.facts[_FACT] = await self._found(service, engine, origin.peer)
        match origin.facts[_FACT]:
            case Principal() as job:
                return job
            case str() as problem if _is_admin(otherwise):
                raise Forbidden(problem)
            case _:
                return otherwise

    async def _found(self, service: Service, engine: Engine, peer: Peer) -> Principal | str | None:
        """The job; or why it cannot be told; None: no job."""
        pids = await processes_of(peer)
        traced = await asyncio.to_thread(_traced, engine, pids)
        for key, is_sure in _candidates(service, traced):
            stored = await service.store.job(JobId(key.job_id))
            if stored is not None and (is_sure or self._is_of(stored, peer)):
                return _principal(stored)
        if any(each.is_ours for each in traced):
            return _UNKNOWN
        # What root may do here does not depend on us: it can do everything to this service.
        is_stronger = peer.uid == 0 and self._own_uid != 0
        is_told = traced and all(each.is_whole for each in traced)
        return None if is_told or is_stronger else _GONE

    def _is_of(self, stored: StoredJob, peer: Peer) -> bool:
        """Marks alone are believed of the very user that the job runs as, who gains nothing by
        them: or anybody could pass for anybody's job."""
        uid = self._own_uid if stored.detail.uid is None else stored.detail.uid
        return uid == peer.uid


def _candidates(service: Service, traced: Sequence[Traced]) -> Iterator[tuple[AttemptKey, bool]]:
    """Whose it may be, and whether that is sure, which it is by its ancestors."""
    yield from ((each.key, True) for each in traced if each.key is not None)
    placed = _placed(service)
    for each in traced:
        yield from ((placed[pid], True) for pid in each.pids if pid in placed)
    for each in traced:
        yield from ((key, False) for key in each.claimed)


def _traced(engine: Engine, pids: Iterable[int]) -> list[Traced]:
    """In a thread: the kernel may take its time."""
    return [engine.traced(pid) for pid in sorted(pids)]


def _placed(service: Service) -> dict[int, AttemptKey]:
    return {
        progress.pid: AttemptKey(job.job_id, progress.attempt)
        for job, progress in service.reads.placed_jobs()
        if progress.pid is not None and not job.options.lease
    }


def _is_admin(principal: Principal) -> bool:
    return principal.role in (Role.ADMIN, Role.OPERATOR)


def _principal(stored: StoredJob) -> Principal:
    job, detail = stored.job, stored.detail
    return Principal(
        detail.user or job.job_id,
        Role.USER,
        frozenset({job.tenant_id}),
        detail.uid,
        "job",
        job_id=job.job_id,
        acts_for=detail.owner,
    )
