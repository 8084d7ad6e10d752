"""Queues many plain jobs in chunks; an invalid one does not affect the others."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final

from tgpu.api.access.claims import as_claimed
from tgpu.api.access.visible import check_tenant, shown_name
from tgpu.api.errors import http_error
from tgpu.api.rest.loading.ingest import Complaint, Item, ItemReader
from tgpu.api.rest.loading.plain import Interned, NotAnObject, PlainJob, job_id_in
from tgpu.api.rest.problem import ApiProblem
from tgpu.core.errors import InvalidRequest, SchedulerError, Unavailable
from tgpu.core.model.job import Job
from tgpu.service.identity.caller import Principal
from tgpu.service.service import Service

# Jobs recorded by one commit: large enough that the flush is shared by many, small enough that
# others are served in between.
_CHUNK: Final = 5_000
# Refusals that an answer tells; of all of them it tells the number. A file of nothing but mistakes
# must not become an answer many times its size.
MOST_REJECTED: Final = 1_000
_LONGEST_ID: Final = 128  # characters of the id of a refused job

ToPlain = Callable[[Any], PlainJob]


async def load(
    service: Service,
    caller: Principal,
    place: str,
    batches: AsyncIterator[Iterable[Item]],
    to_plain: ToPlain,
) -> dict[str, Any]:
    """Queue all that comes; `place` is what a job's number is called: "line" or "index"."""
    loader = _Loader(service, caller, place)
    try:
        async for batch in batches:
            for number, item in batch:
                loader.take(number, item, to_plain)
                if len(loader.jobs) >= _CHUNK:
                    await loader.pass_on()
    except (ApiProblem, InvalidRequest) as error:
        # Nothing of a file that cannot be read is queued, as long as nothing is queued yet.
        if not loader.has_begun:
            raise
        loader.cut_short(error)
    await loader.finish()
    loader.rejected.sort(key=lambda row: row[place])
    counts = {"accepted": len(loader.accepted), "rejected": loader.rejections}
    return {"accepted": loader.accepted, "rejected": loader.rejected, "counts": counts}


async def items_of(
    reader: ItemReader, pieces: AsyncIterator[bytes]
) -> AsyncIterator[Iterable[Item]]:
    async for piece in pieces:
        yield reader.feed(piece)
    yield reader.end()


class _Loader:
    def __init__(self, service: Service, caller: Principal, place: str) -> None:
        self._service = service
        self._caller = caller
        self._place = place
        self._interned = Interned(shown_name(caller) or "")
        self._recording: asyncio.Task[None] | None = None
        self._last = 0
        self._numbers: list[int] = []
        self.jobs: list[Job] = []
        self.accepted: list[str] = []
        self.rejected: list[dict[str, Any]] = []
        self.rejections = 0  # those too that are not told

    @property
    def has_begun(self) -> bool:
        return self._recording is not None

    def take(self, number: int, item: Any, to_plain: ToPlain) -> None:
        self._last = number
        if isinstance(item, Complaint):
            self._reject(number, None, "PARSE_ERROR", str(item))
            return
        try:
            job = self._interned.job(to_plain(item))
            if self._caller.tenants is not None:
                check_tenant(self._service, self._caller, job.tenant_id)
            job = as_claimed(self._service, self._caller, job)
        except NotAnObject as error:
            self._reject(number, None, "PARSE_ERROR", str(error))
        except InvalidRequest as error:
            code = "PARSE_ERROR" if error.field == "body" else "VALIDATION_ERROR"
            self._reject(number, self._id_in(item), code, error.message)
        else:
            self.jobs.append(job)
            self._numbers.append(number)

    def _id_in(self, item: Any) -> str | None:
        """Not looked for where nobody will be told: that costs as much as reading it again."""
        job_id = job_id_in(item) if len(self.rejected) < MOST_REJECTED else None
        return job_id if job_id is None else job_id[:_LONGEST_ID]

    def cut_short(self, error: ApiProblem | InvalidRequest) -> None:
        """The rest of the file is lost; what is queued already must be told all the same."""
        code = error.code if isinstance(error, ApiProblem) else http_error(error).code
        message = f"nothing from here on was read: {error.message}"
        self._reject(self._last + 1, None, code, message)

    async def pass_on(self) -> None:
        """One chunk is recorded while the next is read."""
        if self._recording is not None:
            await self._recording
        self._recording = asyncio.create_task(self._flush())
        await asyncio.sleep(0)

    async def finish(self) -> None:
        if self._recording is not None:
            await self._recording
        await self._flush()

    async def _flush(self) -> None:
        jobs, numbers = self.jobs, self._numbers
        self.jobs, self._numbers = [], []
        if not jobs:
            return
        refusals: list[SchedulerError | None]
        try:
            refusals = await self._service.jobs.submit_plain(jobs)
        except Unavailable as error:
            # Chunks before this one are on record: the answer must say which jobs those are.
            refusals = [error for _ in jobs]
        for job, number, refusal in zip(jobs, numbers, refusals, strict=True):
            if refusal is None:
                self.accepted.append(job.job_id)
            else:
                self._reject(number, job.job_id, http_error(refusal).code, refusal.message)

    def _reject(self, number: int, job_id: str | None, code: str, message: str) -> None:
        self.rejections += 1
        if len(self.rejected) < MOST_REJECTED:
            self.rejected.append(
                {self._place: number, "job_id": job_id, "code": code, "message": message}
            )
