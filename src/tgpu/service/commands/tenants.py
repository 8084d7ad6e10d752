"""The commands on tenants and their queues."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tgpu.core.errors import Conflict, InvalidRequest
from tgpu.core.model.events import QueueRemoved, QueueSet, TenantSet
from tgpu.core.model.ids import DEFAULT_QUEUE, TenantId
from tgpu.core.model.tenant import Tenant, TenantQueue
from tgpu.core.policies import QUEUE_NAMES
from tgpu.core.state.cluster_state import State
from tgpu.service.accounting.user_limits import UserLimitsChange
from tgpu.service.identity.run_as import JobUsers
from tgpu.service.reads.tenants import queue_of, tenant_use
from tgpu.service.recording.clock import Clock
from tgpu.service.recording.writer import Decision, Writer
from tgpu.text.plurals import plural

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
NAME_RULE: Final = "1 to 128 letters, digits, '.', '_' or '-', starting with none of '.' and '-'"


class TenantCommands:
    def __init__(self, state: State, writer: Writer, clock: Clock, run_as: JobUsers) -> None:
        self._state = state
        self._writer = writer
        self._clock = clock
        self._run_as = run_as

    # -- tenants -----------------------------------------------------------------------------

    async def create(
        self,
        tenant_id: TenantId | None,
        *,
        system_user: bool = False,
        users: UserLimitsChange | None = None,
        **fields: Any,
    ) -> Tenant:
        """A new tenant; without an id it gets one from the clock, as `tenant-1765705491822`.

        With `system_user` its jobs get a local user of their own, who is made here.
        """
        if tenant_id is not None and not _NAME.fullmatch(tenant_id):
            raise InvalidRequest("tenant_id", tenant_id, f"an id is {NAME_RULE}")
        if system_user:
            tenant_id = tenant_id or TenantId(_free_id(self._state, self._clock.now()))
            if tenant_id in self._state.ledger.tenants:  # before a user is made for it
                raise _taken(tenant_id)
            fields["run_as"] = await self._system_user(tenant_id, fields)
        await self._check_user(fields)

        def decide(state: State) -> Decision[Tenant]:
            now = self._clock.now()
            chosen = tenant_id or _free_id(state, now)
            if chosen in state.ledger.tenants:
                raise _taken(chosen)
            tenant = _checked(_with(Tenant(TenantId(chosen), created_at=now, **fields), users))
            self._run_as.check_unique(state, [tenant])
            return Decision(tenant, [TenantSet(now, tenant)])

        return await self._writer.do(decide, touches=None)

    async def change(
        self,
        tenant_id: TenantId,
        changes: Mapping[str, Any],
        *,
        system_user: bool = False,
        users: UserLimitsChange | None = None,
    ) -> Tenant:
        """Replace some fields of a tenant. Jobs that run keep running, whatever the new limits."""
        if system_user:
            tenant_use(self._state, tenant_id)
            changes = {**changes, "run_as": await self._system_user(tenant_id, changes)}
        await self._check_user(changes)

        def decide(state: State) -> Decision[Tenant]:
            before = tenant_use(state, tenant_id).tenant
            tenant = _checked(_with(replace(before, **changes), users))
            if "run_as" in changes:
                self._run_as.check_unique(state, [tenant])
            return Decision(tenant, [TenantSet(self._clock.now(), tenant)])

        return await self._writer.do(decide, touches=None)

    async def _system_user(self, tenant_id: TenantId, fields: Mapping[str, Any]) -> str:
        if fields.get("run_as"):
            remedy = "a tenant has one user: give run_as, or system_user to create one"
            raise InvalidRequest("run_as", fields["run_as"], remedy)
        return await self._run_as.accounts.make_for(tenant_id)

    async def _check_user(self, fields: Mapping[str, Any]) -> None:
        """In a thread: the list of users may be on another machine."""
        if fields.get("run_as"):
            await asyncio.to_thread(self._run_as.check_name, fields["run_as"])

    # -- queues ------------------------------------------------------------------------------

    async def create_queue(self, tenant_id: TenantId, name: str, **fields: Any) -> TenantQueue:
        if not _NAME.fullmatch(name):
            raise InvalidRequest("name", name, f"a queue's name is {NAME_RULE}")

        def decide(state: State) -> Decision[TenantQueue]:
            tenant_use(state, tenant_id)
            if name == DEFAULT_QUEUE or state.ledger.queue(tenant_id, name) is not None:
                raise Conflict(f"queue {name} of tenant {tenant_id} already exists")
            now = self._clock.now()
            queue = _checked_queue(TenantQueue(tenant_id, name, created_at=now, **fields))
            return Decision(queue, [QueueSet(now, queue)])

        return await self._writer.do(decide, touches=None)

    async def change_queue(
        self, tenant_id: TenantId, name: str, changes: Mapping[str, Any]
    ) -> TenantQueue:
        def decide(state: State) -> Decision[TenantQueue]:
            queue = _checked_queue(replace(queue_of(state, tenant_id, name), **changes))
            return Decision(queue, [QueueSet(self._clock.now(), queue)])

        return await self._writer.do(decide, touches=None)

    async def remove_queue(self, tenant_id: TenantId, name: str) -> None:
        """Only an empty one: its jobs would be in a queue that nobody can see."""

        def decide(state: State) -> Decision[None]:
            queue_of(state, tenant_id, name)
            live = state.waiting.members(tenant_id, name)
            if live:
                raise Conflict(
                    f"queue {name} of tenant {tenant_id} has {plural(live, 'job')} that have not "
                    "ended; cancel them or wait"
                )
            if name == DEFAULT_QUEUE:
                raise Conflict("every tenant has a default queue; it cannot be removed")
            return Decision(None, [QueueRemoved(self._clock.now(), tenant_id, name)])

        await self._writer.do(decide, touches=None)


def _taken(tenant_id: str) -> Conflict:
    return Conflict(f"tenant {tenant_id} already exists", [{"tenant_id": tenant_id}])


def _with(tenant: Tenant, users: UserLimitsChange | None) -> Tenant:
    return tenant if users is None else users.applied(tenant)


def _checked(tenant: Tenant) -> Tenant:
    """What holds for every tenant, whichever way it came in."""
    if tenant.weight_millis < 1:  # shares are divided by it
        raise InvalidRequest(
            "fair_share_weight", tenant.weight_millis / 1000, "a weight is at least 0.001"
        )
    return tenant


def _checked_queue(queue: TenantQueue) -> TenantQueue:
    """What holds for every queue, whichever way it came in."""
    if queue.policy and queue.policy not in QUEUE_NAMES:
        known = ", ".join(QUEUE_NAMES)
        raise InvalidRequest(
            "policy", queue.policy, f"a queue's order is one of {known}, or empty for the service's"
        )
    if queue.wait_target_ms is not None and queue.wait_target_ms < 0:
        raise InvalidRequest("wait_target", queue.wait_target_ms / 1000, "must not be negative")
    return queue


def _free_id(state: State, now: int) -> str:
    number = now
    while f"tenant-{number}" in state.ledger.tenants:
        number += 1
    return f"tenant-{number}"
