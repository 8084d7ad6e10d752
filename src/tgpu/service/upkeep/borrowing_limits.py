"""Adjusts borrowing limits to past usage at intervals; each change is in the audit log."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from tgpu.core.accounting.borrowing_limits import Adjustment, AdjustRules, PastUse, adjusted
from tgpu.core.model.events import TenantSet
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import Tenant
from tgpu.core.model.units import gpus_text
from tgpu.core.state.cluster_state import State
from tgpu.service.recording.audit import OK, by_itself
from tgpu.service.recording.clock import WallClock
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.api import AuditRow, Store

ACTOR: Final = "service:adjust"
_KIND, _NAME = "adjust", "mark"  # the document with where the present interval began


@dataclass(frozen=True, slots=True)
class AdjustSettings:
    rules: AdjustRules
    interval_ms: int


@dataclass(frozen=True, slots=True)
class _Mark:
    """Where the present interval began, and what each tenant had used up by then."""

    at: int
    spent: dict[str, int]


class Adjuster:
    """Measures from one adjustment to the next, by the meters that budgets have."""

    def __init__(self, state: State, writer: Writer, settings: AdjustSettings) -> None:
        self._state = state
        self._writer = writer
        self._settings = settings
        self._mark: _Mark | None = None

    async def open(self, store: Store) -> None:
        """Go on measuring where the last run of the service was."""
        content = (await store.documents(_KIND)).get(_NAME)
        self._mark = None if content is None else msgspec.json.decode(content, type=_Mark)

    async def adjust(self, now: int) -> dict[TenantId, Adjustment]:
        """Adjust if it is time to; what was changed. The first call only begins to measure."""
        if self._mark is not None and now - self._mark.at < self._settings.interval_ms:
            return {}
        changes: dict[TenantId, Adjustment] = {}
        spends = self._state.budgets.spend
        mark = _Mark(now, {name: spends(name).upto(now).total for name in self._tenants()})

        def decide(state: State) -> Decision[None]:
            changes.update(self._changes(state, mark))
            events = [TenantSet(now, _with_borrow(state, *change)) for change in changes.items()]
            rows = [_row(*change) for change in changes.items()]
            return Decision(
                None,
                events,
                audit=rows,
                documents={(_KIND, _NAME): msgspec.json.encode(mark)},
                applied=lambda: self._measure_from(mark),
            )

        with by_itself():
            await self._writer.do(decide, touches=None)
        return changes

    def step_documents(self, by: int) -> dict[tuple[str, str], bytes | None]:
        """The clock is set: the interval that was being measured means nothing any more."""
        return {(_KIND, _NAME): None}

    def step(self, by: int) -> None:
        self._mark = None

    def _measure_from(self, mark: _Mark) -> None:
        self._mark = mark

    def _tenants(self) -> list[TenantId]:
        return sorted(self._state.ledger.tenants)

    def _changes(self, state: State, mark: _Mark) -> Iterator[tuple[TenantId, Adjustment]]:
        before = self._mark
        if before is None or mark.at <= before.at:
            return
        waiting = _waiting(state)
        for tenant_id in self._tenants():
            if tenant_id not in before.spent:
                continue  # new since
            spent = mark.spent.get(tenant_id, 0) - before.spent[tenant_id]
            past = PastUse(spent // (mark.at - before.at), waiting.get(tenant_id, 0))
            tenant = state.ledger.tenant(tenant_id).tenant
            change = adjusted(tenant, past, self._settings.rules)
            if change is not None:
                yield tenant_id, change


def _with_borrow(state: State, tenant_id: TenantId, change: Adjustment) -> Tenant:
    return replace(state.ledger.tenant(tenant_id).tenant, borrow_millis=change.after)


def _waiting(state: State) -> dict[TenantId, int]:
    """GPUs that waiting jobs ask for, by tenant."""
    found: dict[TenantId, int] = {}
    for queue in state.waiting.classes():
        job_class = queue.job_class
        amount = len(queue.keys) * job_class.request.gpu_millis
        found[job_class.tenant_id] = found.get(job_class.tenant_id, 0) + amount
    return found


def _row(tenant_id: TenantId, change: Adjustment) -> AuditRow:
    before = "no limit" if change.before is None else gpus_text(change.before)
    return AuditRow(
        at=WallClock().now(),
        actor=ACTOR,
        action="adjust borrowing limit",
        target=tenant_id,
        tenant_id=tenant_id,
        origin="service",
        outcome=OK,
        detail=f"max_borrow_gpus {before} -> {gpus_text(change.after)}: {change.why}",
    )
