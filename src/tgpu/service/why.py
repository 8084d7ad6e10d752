"""Why jobs wait: in short for lists, in detail for one job."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from time import monotonic, thread_time
from typing import Final, Protocol

from tgpu.core.cycle import CycleObserver
from tgpu.core.explain.ahead import Ahead, ahead_of
from tgpu.core.explain.answer import CycleOutcome, Decide, Why, watch_classes, why
from tgpu.core.explain.blockers import Blocker
from tgpu.core.explain.changes import RequestChange, tries
from tgpu.core.explain.reason import own_reason
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import JobClass
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.plan import Plan
from tgpu.core.model.reasons import Reason, ReasonCode, reason
from tgpu.core.policies.slots import ChoicePolicy, OrderPolicy, Policy
from tgpu.core.preemption.cause import named_in, whose, without_names
from tgpu.core.state.cluster_state import Entry, State
from tgpu.service.identity.ownership import Sight, users_sight

# A cycle that takes longer than this is not made for every list that is read between two commits:
# what it came to is told for ten times as long, so that at most a tenth of the time goes into it.
_CHEAP_SECONDS: Final = 0.02
_SHARE: Final = 10


class DryRun(Protocol):
    """One cycle that changes nothing, with the service's rules."""

    def __call__(self, now: int, policy: Policy, observer: CycleObserver | None) -> Plan: ...


class ClassGate(Protocol):
    name: str
    refused: frozenset[JobClass]


@dataclass(frozen=True, slots=True)
class Told:
    """All there is to say about a waiting job."""

    reason: Reason
    blockers: tuple[Blocker, ...]
    ahead: Ahead | None  # None: an installed policy has an order that only it knows
    starts_by: int | None
    change: RequestChange | None


class Reasons:
    """From one place, for lists and for whoever asks about one job: a cycle that changes nothing,
    watched as it passes them by. It is kept until the next commit: a page of a list asks for the
    same classes many times."""

    def __init__(
        self,
        state: State,
        gate: ClassGate,
        policy: Policy,
        policies: Mapping[str, OrderPolicy],
        dry_run: DryRun,
    ) -> None:
        self._state = state
        self._gate = gate
        self._policy = policy
        self._policies = policies
        self._dry_run = dry_run
        self._classes: set[JobClass] = set()  # that the cycle below was asked about
        self._outcome: CycleOutcome | None = None
        self._is_old = False  # something was recorded since
        self._keep_until = 0.0  # on the monotonic clock, all the same

    def forget(self) -> None:
        self._is_old = True

    def look(self, job_ids: Iterable[JobId], now: int) -> None:
        """One cycle for all of these, where `reason` would ask for one after the other."""
        entries = [self._pending(job_id) for job_id in job_ids]
        classes = {e.queue.job_class for e in entries if e and own_reason(self._state, e) is None}
        if self._is_old and monotonic() >= self._keep_until:
            self._classes.clear()
            self._outcome = None
        if not classes or (self._outcome is not None and classes <= self._classes):
            return
        # What was asked about before is asked about again, while nothing has changed.
        self._classes = classes if self._is_old else classes | self._classes
        self._is_old = False
        began = thread_time()  # its own cost, however busy the machine is with other things
        decide, name = self._deciding(now)
        self._outcome = watch_classes(self._state, self._classes, now, decide, name)
        cost = thread_time() - began
        self._keep_until = monotonic() + _SHARE * cost if cost > _CHEAP_SECONDS else 0.0

    def reason(self, job_id: JobId, now: int, sight: Sight | None = None) -> Reason | None:
        """Why a pending job waits; None for any other.

        Others are named as far as the reader's `sight` goes: unless told, the job's own user's.
        """
        entry = self._pending(job_id)
        if entry is None:
            return None
        found = own_reason(self._state, entry)
        if found is None:
            self.look((job_id,), now)
            assert self._outcome is not None  # there is one after any look
            found = self._outcome.reason_of(entry)
        return self._shown(self._by_gate(entry, found), entry, sight)

    async def why(self, job_id: JobId, now: int, sight: Sight | None = None) -> Told | None:
        """At length. Asks the cycle a number of times, and lets others work in between."""
        entry = self._pending(job_id)
        if entry is None:
            return None
        decide, name = self._deciding(now)
        found = why(self._state, entry, now, decide, name)
        self._keep_until = 0.0  # a list must not tell of earlier what was told of now
        policy, ahead = self._policy, None
        if not isinstance(policy, ChoicePolicy):
            ahead = ahead_of(self._state, entry, now, policy, self._policies)
        shown = self._shown(self._by_gate(entry, found.reason), entry, sight)
        change = None if name else await self._change(entry, found, now, policy)
        return Told(shown, found.blockers, ahead, found.starts_by, change)

    def _deciding(self, now: int) -> tuple[Decide, str]:
        """How a cycle would decide, and the name of a policy that was not asked for it."""
        policy, name = self._policy, ""
        if isinstance(policy, ChoicePolicy):
            # One of another package may count how often it is asked: it is not asked for this.
            policy, name = _oldest_first(policy.name), policy.name
        return lambda seen: self._dry_run(now, policy, seen), name

    async def _change(
        self, entry: Entry, found: Why, now: int, policy: Policy
    ) -> RequestChange | None:
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
