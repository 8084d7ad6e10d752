"""Numbers of jobs and arrays submitted without an id: dense, and never reused.

The highest one is on record with the jobs that got it, in their very commit. An array takes one
number, however many elements it has. A number whose submission was refused is given to the next.
"""

import heapq
from typing import Final

from tgpu.core.model.ids import JobId
from tgpu.store.api import JobQuery, LoadedState, Store

_KIND, _NAME = "job_numbers", "last"  # the document with the highest number on record
_Documents = dict[tuple[str, str], bytes | None]
_NONE: Final[_Documents] = {}


async def last_number(store: Store, loaded: LoadedState) -> int:
    """Where to go on. A database of before has no record of it: there, behind all its jobs."""
    content = (await store.documents(_KIND)).get(_NAME)
    return loaded.last_number if content is None else int(content)


class JobNumbers:
    def __init__(self, store: Store, last: int) -> None:
        self._store = store
        self._last = last  # the highest that was ever taken
        self.recorded = last  # … that is on record, or on its way there
        self._returned: list[int] = []  # a heap

    async def take(self) -> JobId:
        """The lowest that is free; names that callers chose are passed over."""
        while True:
            if self._returned:
                number = heapq.heappop(self._returned)
            else:
                number = self._last = self._last + 1
            candidate = JobId(str(number))
            if not await self._is_taken(candidate):
                return candidate

    def give_back(self, job_id: JobId) -> None:
        """Nothing of this number is on record, nor ever will be."""
        heapq.heappush(self._returned, int(job_id))

    def documents(self, job_id: JobId | None) -> _Documents:
        """To be recorded with the jobs of this number. None: they were named by their caller."""
        if job_id is None:
            return _NONE
        # Not its own: of two in one commit, the later one may have the lower number.
        self.recorded = max(self.recorded, int(job_id))
        return {(_KIND, _NAME): str(self.recorded).encode()}

    async def _is_taken(self, candidate: JobId) -> bool:
        if await self._store.known([candidate]):
            return True
        return bool(await self._store.jobs(JobQuery(array_id=candidate, limit=1)))
