"""What stores with a database have in common: a thread that writes, one that reads, and what each
is asked for.
"""

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import TERMINAL, JobState, Progress
from tgpu.core.model.node import Node
from tgpu.core.model.tenant import Tenant, TenantQueue
from tgpu.core.model.usage import GpuTimeUsage
from tgpu.store import codec
from tgpu.store.api import (
    AuditRow,
    DailyUsage,
    FoldedJob,
    JobQuery,
    JournalRow,
    LoadedState,
    Record,
    StoredJob,
    StoreUnavailable,
)
from tgpu.store.thread import CLOSE_SECONDS, StoreThread

T = TypeVar("T")
_Folded = Callable[[Any, JobQuery, codec.SharedValues], list[FoldedJob]]
_Usage = dict[tuple[TenantId, str], GpuTimeUsage]

_LIVE: Final = tuple(state for state in JobState if state not in TERMINAL)


class DatabaseReads(Protocol):
    """The functions of a module that reads one kind of database; each takes a connection."""

    def tenants(self, at: Any, /) -> tuple[Tenant, ...]: ...
    def queues(self, at: Any, /) -> tuple[TenantQueue, ...]: ...
    def nodes(self, at: Any, /) -> tuple[Node, ...]: ...
    def all_usage(self, at: Any, /) -> _Usage: ...
    def live(
        self, at: Any, states: Sequence[JobState], values: codec.SharedValues, /
    ) -> tuple[tuple[Job, Progress], ...]: ...
    def over(self, at: Any, /) -> dict[JobState, int]: ...
    def last(self, at: Any, column: str, table: str, /) -> int: ...
    def last_decision(self, at: Any, /) -> int: ...
    def jobs(self, at: Any, query: JobQuery, values: codec.SharedValues, /) -> list[StoredJob]: ...
    def count(self, at: Any, query: JobQuery, fold: bool, /) -> int: ...
    def known(self, at: Any, job_ids: Sequence[JobId], /) -> set[JobId]: ...
    def reruns(self, at: Any, job_ids: Sequence[JobId], /) -> dict[JobId, str]: ...
    def environment(self, at: Any, env_id: str, /) -> dict[str, str]: ...
    def journal(self, at: Any, after: int, limit: int, /) -> list[JournalRow]: ...
    def journal_of(self, at: Any, job_id: JobId, after: int, limit: int, /) -> list[JournalRow]: ...
    def documents(self, at: Any, kind: str, /) -> dict[str, bytes]: ...
    def usage(self, at: Any, since: int, tenant: TenantId | None, /) -> list[DailyUsage]: ...
    def audit(
        self, at: Any, before: int | None, limit: int, tenant: TenantId | None, /
    ) -> list[AuditRow]: ...


class ThreadedStore(ABC):
    """Commits wait for one another, reads for one another; a read never waits for a commit."""

    is_durable = True

    def __init__(self, name: str, title: str, reads: DatabaseReads, folded: _Folded) -> None:
        """`title` is what sentences call it."""
        self.name = name
        self._title = title
        self._reads = reads
        self._folded = folded
        self._write_thread: StoreThread | None = None
        self._read_thread: StoreThread | None = None
        self._values = codec.SharedValues()  # used by the reading thread only, once open

    async def commit(self, record: Record) -> int:
        return await self._in_thread(self._write_thread, lambda: self._commit(record))

    async def ping(self) -> None:
        await self._in_thread(self._write_thread, self._ping)

    async def job(self, job_id: JobId) -> StoredJob | None:
        found = await self.jobs(JobQuery(job_ids=(job_id,), limit=1))
        return found[0] if found else None

    async def jobs(self, query: JobQuery) -> list[StoredJob]:
        return await self._read(self._reads.jobs, query, self._values)

    async def folded(self, query: JobQuery) -> list[FoldedJob]:
        return await self._read(self._folded, query, self._values)

    async def count(self, query: JobQuery, *, fold: bool = False) -> int:
        return await self._read(self._reads.count, query, fold)

    async def known(self, job_ids: Sequence[JobId]) -> set[JobId]:
        return await self._read(self._reads.known, job_ids)

    async def reruns(self, job_ids: Sequence[JobId]) -> dict[JobId, str]:
        return await self._read(self._reads.reruns, job_ids)

    async def environment(self, env_id: str) -> Mapping[str, str]:
        return await self._read(self._reads.environment, env_id)

    async def journal(
        self, after: int, limit: int, job_id: JobId | None = None
    ) -> list[JournalRow]:
        if job_id is None:
            return await self._read(self._reads.journal, after, limit)
        return await self._read(self._reads.journal_of, job_id, after, limit)

    async def documents(self, kind: str) -> Mapping[str, bytes]:
        return await self._read(self._reads.documents, kind)

    async def usage(self, since_day: int, tenant_id: TenantId | None = None) -> list[DailyUsage]:
        return await self._read(self._reads.usage, since_day, tenant_id)

    async def audit(
        self, *, before: int | None = None, limit: int = 100, tenant_id: TenantId | None = None
    ) -> list[AuditRow]:
        return await self._read(self._reads.audit, before, limit, tenant_id)

    async def close(self) -> None:
        """Ends what is under way first, unless that hangs. Closing twice is fine."""
        threads = (
            (self._read_thread, self._close_reader),
            (self._write_thread, self._close_writer),
        )
        self._read_thread = self._write_thread = None
        for thread, shut in threads:
            if thread is not None:
                with suppress(StoreUnavailable):
                    await thread.call(shut, CLOSE_SECONDS)
                thread.end()

    async def _in_thread(
        self, thread: StoreThread | None, work: Callable[[], T], seconds: float | None = None
    ) -> T:
        if thread is None:
            raise StoreUnavailable(f"{self._title} is not open")
        return await thread.call(work, seconds)

    @abstractmethod
    async def _read(self, function: Callable[..., T], *arguments: object) -> T:
        """In the reading thread, with its connection before the arguments."""

    # -- in the threads ----------------------------------------------------------------------

    @abstractmethod
    def _commit(self, record: Record) -> int: ...

    @abstractmethod
    def _ping(self) -> None: ...

    @abstractmethod
    def _close_reader(self) -> None: ...

    @abstractmethod
    def _close_writer(self) -> None: ...

    def _load(self, connection: Any) -> LoadedState:
        reads = self._reads
        # The collector would walk through a million new objects again and again, and find nothing.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return LoadedState(
                tenants=reads.tenants(connection),
                queues=reads.queues(connection),
                nodes=reads.nodes(connection),
                usage=reads.all_usage(connection),
                live=reads.live(connection, _LIVE, codec.SharedValues()),
                over=reads.over(connection),
                last_seq=reads.last(connection, "seq", "journal"),
                last_number=reads.last(connection, "number", "jobs"),
                last_decision=reads.last_decision(connection),
            )
        finally:
            if collecting:
                gc.enable()
