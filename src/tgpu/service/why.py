"""Why jobs wait, as the service tells it: in a word for lists, at length for one who asks."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from tgpu.core.cycle import CycleObserver
from tgpu.core.explain import NOTHING, explain, explain_waiting, own_reason, standing_holds
from tgpu.core.ids import JobId
from tgpu.core.job import JobClass
from tgpu.core.lifecycle import JobState
from tgpu.core.plan import Plan
from tgpu.core.policy import ChoicePolicy, OrderPolicy, Policy
from tgpu.core.preemption_cause import named_in, whose, without_names
from tgpu.core.reasons import Reason, ReasonCode, reason
from tgpu.core.stages.reserved_capacity import ReservedCapacity
from tgpu.core.state import Entry, State
from tgpu.core.why.ahead import Ahead, ahead_of
from tgpu.core.why.answer import Why, why
from tgpu.core.why.blockers import Blocker
from tgpu.core.why.changes import Change, tries
from tgpu.service.ownership import Sight, users_sight


class DryRun(Protocol):
    """One cycle that changes nothing, with the service's rules."""

    def __call__(self, now: int, policy: Policy, observer: CycleObserver | None) -> Plan: ...


class Gate(Protocol):
    name: str
    refused: frozenset[JobClass]


@dataclass(frozen=True, slots=True)
class Told:
    """All there is to say about a waiting job."""

    reason: Reason
    blockers: tuple[Blocker, ...]
    ahead: Ahead | None  # None: an installed policy has an order that only it knows
    starts_by: int | None
    change: Change | None


class Reasons:
    """Cached until the next commit: a page of a list asks for the same class many times."""

    def __init__(
        self,
        state: State,
        gate: Gate,
        policy: Policy,
        policies: Mapping[str, OrderPolicy],
        dry_run: DryRun,
    ) -> None:
        self._state = state
        self._gate = gate
        self._policy = policy
        self._policies = policies
        self._dry_run = dry_run
        self._decided = NOTHING
        self._by_class: dict[JobClass, Reason] = {}
        self._holds: ReservedCapacity | None = None

    def decided(self, plan: Plan) -> None:
        """What the last cycle kept for others is kept until the next."""
        self._decided = plan
        self.forget()

    def forget(self) -> None:
        self._by_class.clear()
        self._holds = None

    def reason(self, job_id: JobId, sight: Sight | None = None) -> Reason | None:
        """Why a pending job waits; None for any other.

        Others are named as far as the reader's `sight` goes: unless told, the job's own user's.
        """
        entry = self._pending(job_id)
        if entry is None:
            return None
        found = own_reason(self._state, entry)
        if found is None and entry.progress.claim is not None:
            found = explain(self._state, entry, self._decided)
        elif found is None:
            found = self._of_class(entry.queue.job_class)
        return self._shown(self._by_gate(entry, found), entry, sight)

    async def why(self, job_id: JobId, now: int, sight: Sight | None = None) -> Told | None:
        """At length. Asks the cycle a number of times, and lets others work in between."""
        entry = self._pending(job_id)
        if entry is None:
            return None
        policy, name = self._policy, ""
        if isinstance(policy, ChoicePolicy):
            # One of another package may count how often it is asked: it is not asked for this.
            policy, name = _oldest_first(policy.name), policy.name
        found = why(self._state, entry, now, lambda seen: self._dry_run(now, policy, seen), name)
        ahead = None
        if not isinstance(policy, ChoicePolicy):
            ahead = ahead_of(self._state, entry, now, policy, self._policies)
        shown = self._shown(self._by_gate(entry, found.reason), entry, sight)
        change = None if name else await self._change(entry, found, now, policy)
        return Told(shown, found.blockers, ahead, found.starts_by, change)

    async def _change(self, entry: Entry, found: Why, now: int, policy: Policy) -> Change | None:
        if entry.queue.job_class in self._gate.refused:
            return None
        for change in tries(
            self._state, entry, found, now, lambda seen: self._dry_run(now, policy, seen)
        ):
            if change is not None:
                return change
            await asyncio.sleep(0)
        return None

    def _pending(self, job_id: JobId) -> Entry | None:
        entry = self._state.entry(job_id)
        waits = entry is not None and entry.progress.state is JobState.PENDING
        return entry if waits else None

    def _of_class(self, job_class: JobClass) -> Reason:
        found = self._by_class.get(job_class)
        if found is None:
            state = self._state
            if self._holds is None:
                self._holds = standing_holds(state, self._decided, state.now)
            found = explain_waiting(state, job_class, self._decided, self._holds)
            self._by_class[job_class] = found
        return found

    def _by_gate(self, entry: Entry, found: Reason) -> Reason:
        if found.code is not ReasonCode.NEXT_CYCLE:
            return found
        if entry.queue.job_class not in self._gate.refused:
            return found
        return reason(
            ReasonCode.QUOTA_PROVIDER, provider=self._gate.name, tenant=entry.job.tenant_id
        )

    def _shown(self, found: Reason, entry: Entry, sight: Sight | None) -> Reason:
        """Without the names of what belongs to tenants that are not the reader's to see."""
        if found.code not in _NAMES_OTHERS:
            return found
        return shown_to(self._state, found, sight or users_sight(self._state, entry.job))


_NAMES_OTHERS: Final = frozenset(
    {
        ReasonCode.BEHIND_RESERVATION,
        ReasonCode.PLACE_KEPT,
        ReasonCode.STRICT_LINE,
        ReasonCode.PROMISED,
        ReasonCode.BOOKED,
        ReasonCode.BACKING_OFF,
    }
)


def shown_to(state: State, found: Reason, sight: Sight) -> Reason:
    """The reason with what the reader may not see left empty."""
    facts = dict(found.facts)
    if "job" in facts:
        facts["job"] = ", ".join(_visible(state, [str(facts["job"])], sight))
    if "jobs" in facts:
        facts["jobs"] = ", ".join(_visible(state, str(facts["jobs"]).split(", "), sight))
    if (named := named_in(str(facts.get("cause", "")))) is not None:
        other = whose(state, named)
        if other is None or not sight.sees_tenant(other) or other in sight.own_only:
            facts["cause"] = without_names(str(facts["cause"]))
    if "booking" in facts:
        booking = state.ledger.bookings.get(str(facts["booking"]))
        if booking is None or not sight.sees_tenant(booking.tenant_id):
            facts["booking"] = ""
    return Reason(found.code, tuple(facts.items()))


def _visible(state: State, job_ids: Collection[str], sight: Sight) -> list[str]:
    entries = [state.entry(JobId(job_id)) for job_id in job_ids]
    return [e.job.job_id for e in entries if e is not None and sight.sees_job(e.job)]


def _oldest_first(name: str) -> ChoicePolicy:
    """Finds out whether anything but the policy itself is in a job's way."""
    return ChoicePolicy(name, lambda _, jobs: jobs[0] if jobs else None)
