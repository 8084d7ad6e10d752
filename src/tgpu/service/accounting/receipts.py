"""A receipt of every preemption: which job, for which, why, and what it cost.

One document for each, written in the commit of the decision and again in that of the end, so that
there is none of what never happened. The newest are kept in memory; the oldest are dropped.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import msgspec

from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.plan import PreemptionCause
from tgpu.store.api import Store

_KIND: Final = "preemption"
# About 300 bytes each. A machine that preempts once a minute fills this in a week.
KEPT: Final = 10_000

Documents = dict[tuple[str, str], bytes | None]


@dataclass(frozen=True, slots=True)
class Receipt:
    job_id: JobId
    attempt: int
    tenant_id: TenantId
    user: str
    gpu_millis: int  # that it gave up
    to: str  # the job, or the booking, that gets them
    to_tenant_id: TenantId | None
    cause: PreemptionCause
    reason: str
    asked_at: int
    lost_gpu_millis_ms: int  # since its last checkpoint: reckoned when asked, counted when gone
    gone_at: int | None = None  # when it was gone; None: not yet, or it ended by itself

    @property
    def name(self) -> str:
        """An attempt is preempted once."""
        return f"{self.job_id}/{self.attempt}"

    def gone(self, at: int, lost_gpu_millis_ms: int) -> "Receipt":
        return replace(self, gone_at=at, lost_gpu_millis_ms=lost_gpu_millis_ms)


class Receipts:
    def __init__(self, store: Store, kept: int = KEPT) -> None:
        self._store = store
        self._kept = kept
        self._receipts: dict[str, Receipt] = {}  # oldest first

    async def open(self) -> None:
        bodies = (await self._store.documents(_KIND)).values()
        found = [msgspec.json.decode(body, type=Receipt) for body in bodies]
        found.sort(key=lambda receipt: (receipt.asked_at, receipt.name))
        self._receipts = {receipt.name: receipt for receipt in found}

    def documents(self, new: Collection[Receipt]) -> Documents:
        """What a commit with these has to write; `keep` them once it has."""
        made: Documents = {(_KIND, r.name): msgspec.json.encode(r) for r in new}
        added = sum(receipt.name not in self._receipts for receipt in new)
        surplus = len(self._receipts) + added - self._kept
        if added and surplus > 0:
            made |= {(_KIND, name): None for name in islice(self._receipts, surplus)}
        return made

    def keep(self, new: Iterable[Receipt]) -> None:
        for receipt in new:
            self._receipts[receipt.name] = receipt
        surplus = len(self._receipts) - self._kept
        for name in list(islice(self._receipts, max(0, surplus))):
            del self._receipts[name]

    def gone(self, job_id: JobId, attempt: int, at: int, lost: int) -> Receipt | None:
        """The receipt of one that is gone by now, to be kept; None where there is none."""
        receipt = self._receipts.get(f"{job_id}/{attempt}")
        return None if receipt is None else receipt.gone(at, lost)

    def of(self, job_id: JobId, attempt: int) -> Receipt | None:
        """That of one attempt; None where it was not preempted, or too long ago."""
        return self._receipts.get(f"{job_id}/{attempt}")

    def newest(
        self, limit: int, sees: Callable[[TenantId, str], bool] = lambda _, __: True
    ) -> list[Receipt]:
        """Newest first, of the preempted jobs whose tenant and user the reader `sees`."""
        found = (
            receipt
            for receipt in reversed(self._receipts.values())
            if sees(receipt.tenant_id, receipt.user)
        )
        return list(islice(found, limit))
