"""The audit log: the caller of the current command, and the row about it.

A door (REST, gRPC) opens a `Trail` for each call that may change something. The writer puts the
trail's row into the very commit that changes something, so neither is ever there alone; for a
call that changed nothing the door records the row itself.
"""

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Final

from tgpu.core.model.events import (
    BookingRemoved,
    BookingSet,
    Event,
    JobChanged,
    JobMoved,
    JobsSubmitted,
    NodeSet,
    QueueRemoved,
    QueueSet,
    TenantSet,
)
from tgpu.core.model.ids import TenantId
from tgpu.core.model.node import Node
from tgpu.core.model.tenant import Tenant
from tgpu.core.state.cluster_state import State
from tgpu.log import request_id
from tgpu.service.identity.caller import LOCAL, Principal, Role
from tgpu.service.recording.clock import WallClock
from tgpu.store.api import AuditRow

OK: Final = "ok"
_LONGEST: Final = 300  # characters of a path or an error that a row keeps


@dataclass(slots=True)
class Trail:
    """One call. What it is done to is filled in on the way, as far as it becomes known."""

    actor: str
    action: str  # "DELETE /api/v1/jobs/7", "CancelJob"
    origin: str  # the caller's address, or "unix"
    target: str = ""
    tenant_id: TenantId | None = None
    detail: str = ""
    recorded: bool = False  # a row about it is in a commit
    name: str = ""  # of the caller, for people; "" where nobody knows
    role: Role | None = None
    job_id: str = ""  # of the job that calls

    def identify(self, caller: Principal, user: str = "") -> None:
        """Who calls. `user`: whose connection it is, where a caller has no name of their own."""
        self.actor = caller.actor
        self.role, self.job_id = caller.role, caller.job_id
        self.name = user if caller is LOCAL else caller.name

    def row(self, outcome: str, detail: str = "") -> AuditRow:
        return AuditRow(
            # The wall's time also where jobs live on a manual clock: this is about people.
            at=WallClock().now(),
            actor=self.actor[:_LONGEST],
            action=self.action[:_LONGEST],
            target=self.target[:_LONGEST],
            tenant_id=self.tenant_id,
            origin=self.origin[:_LONGEST],
            outcome=outcome,
            detail=(detail or self.detail)[:_LONGEST],
            request_id=request_id.get(),
        )


_current: ContextVar[Trail | None] = ContextVar("audit_trail", default=None)


def current() -> Trail | None:
    """The call that is being served; None for what the service does by itself."""
    return _current.get()


@contextlib.contextmanager
def following(trail: Trail) -> Iterator[Trail]:
    """What is written inside, also by tasks started there, is this call's doing."""
    token = _current.set(trail)
    try:
        yield trail
    finally:
        _current.reset(token)


@contextlib.contextmanager
def by_itself() -> Iterator[None]:
    """What is written inside is the service's own doing, whoever's call brought it about."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


def concerns(target: str, tenant_id: TenantId | None = None) -> None:
    """Note what the current call is about."""
    trail = current()
    if trail is not None:
        trail.target = target
        trail.tenant_id = tenant_id or trail.tenant_id


def row_of_change(trail: Trail, events: Sequence[Event], state: State) -> AuditRow:
    """The row about a change, with what the events tell beyond the call itself."""
    target, tenant_id, detail = _told(events, state)
    return replace(
        trail.row(OK, trail.detail or detail),
        target=(trail.target or target)[:_LONGEST],
        tenant_id=trail.tenant_id or tenant_id,
    )


def _told(events: Sequence[Event], state: State) -> tuple[str, TenantId | None, str]:
    """What it was done to, whose that is, and what was done, by the first event that tells."""
    found: tuple[str, TenantId | None, str] = "", None, ""
    for event in events:
        match event:
            case JobsSubmitted():
                tenants = {job.tenant_id for job in event.jobs}
                many = f"{len(event.jobs)} jobs" if len(event.jobs) > 1 else ""
                owner = tenants.pop() if len(tenants) == 1 else None
                found = event.jobs[0].job_id, owner, many
            case JobMoved():
                found = event.job_id, _tenant_of_all(events, state), str(event.move)
            case JobChanged(_, job):
                told = event.changes_text() or f"priority {job.priority}"
                found = job.job_id, job.tenant_id, told
            case TenantSet():
                tenant = event.tenant
                found = tenant.tenant_id, tenant.tenant_id, _tenant_told(tenant, state)
            case QueueSet():
                queue = event.queue
                found = f"{queue.tenant_id}:{queue.name}", queue.tenant_id, ""
            case QueueRemoved():
                found = f"{event.tenant_id}:{event.name}", event.tenant_id, "removed"
            case NodeSet():
                found = event.node.node_id, None, _pauses_told(event.node, state)
            case BookingSet():
                found = event.booking.booking_id, event.booking.tenant_id, ""
            case BookingRemoved():
                found = event.booking_id, None, event.cause
            case _:
                continue
        break
    return found


def _tenant_of_all(events: Sequence[Event], state: State) -> TenantId | None:
    """Of the jobs that moved; None where they are of several."""
    moved = (state.entry(event.job_id) for event in events if isinstance(event, JobMoved))
    tenants = {entry.job.tenant_id for entry in moved if entry is not None}
    return tenants.pop() if len(tenants) == 1 else None


def _tenant_told(tenant: Tenant, state: State) -> str:
    """What is another than before; of a new one, as whom its jobs run."""
    use = state.ledger.tenants.get(tenant.tenant_id)
    if use is None:
        return f"jobs run as {tenant.run_as}" if tenant.run_as else ""
    names = (field.name for field in fields(tenant))
    pairs = ((name, getattr(use.tenant, name), getattr(tenant, name)) for name in names)
    return ", ".join(f"{name}: {was} to {now}" for name, was, now in pairs if was != now)


def _pauses_told(node: Node, state: State) -> str:
    known = state.ledger.known_node(node.node_id)
    before = {gpu.index: gpu.paused for gpu in known.gpus} if known is not None else {}
    changed = [gpu for gpu in node.gpus if gpu.paused != before.get(gpu.index)]
    return ", ".join(
        f"GPU {gpu.index} {'resumed' if gpu.paused is None else 'paused'}" for gpu in changed
    )
