"""What commands decide, and the one record that a group of them becomes."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from tgpu.core.model.events import Event, JobsSubmitted
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Detail
from tgpu.core.state.cluster_state import State
from tgpu.service.accounting.budget_enforcement import spend_documents
from tgpu.service.accounting.metering import meter_documents, usage_events
from tgpu.service.recording import audit
from tgpu.service.recording.by_whom import with_names
from tgpu.store.api import AuditRow, Decider, DecisionId, Record

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """What a command decided: events to record, and the answer once they are."""

    answer: T
    events: Sequence[Event] = ()
    details: Mapping[JobId, Detail] = field(default_factory=dict)
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    documents: Mapping[tuple[str, str], bytes | None] = field(default_factory=dict)
    audit: Sequence[AuditRow] = ()
    # What others keep in memory of these documents, taken over right after the commit. Not left to
    # the caller: who has gone away, or was told that the store hangs, would leave it undone.
    applied: Callable[[], object] | None = None


Decide = Callable[[State], Decision[T]]


@dataclass(slots=True)
class Command:
    decide: Decide[Any]
    touches: frozenset[str] | None  # job ids; None: everything, so it is decided alone
    future: asyncio.Future[Any]
    weight: int = 1
    cause: str | None = None  # the request it came with
    trail: audit.Trail | None = None  # whose doing it is; None: the service's own
    is_patient: bool = False  # waits for the outcome, however long that takes
    by: Decider = Decider.SERVICE
    decision_id: DecisionId | None = None  # once it has decided something

    def answer(self, answer: object) -> None:
        if not self.future.done():  # the caller may have gone away
            self.future.set_result(answer)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


Decided = Sequence[tuple[Command, Decision[Any]]]


def audited(command: Command, decision: Decision[Any], state: State) -> Decision[Any]:
    """With the row about it: a change and who made it are on record together or not at all.

    Its events name them too, for those who may not read the audit log.
    """
    if command.trail is None or not (decision.events or decision.documents):
        return decision
    row = audit.row_of_change(command.trail, decision.events, state)
    row = replace(row, request_id=command.cause)  # the writer itself serves no request
    events = with_names(decision.events, command.trail, state)
    return replace(decision, events=events, audit=(*decision.audit, row))


def with_usage(decided: Decided, state: State) -> Decided:
    """Each decision with what it uses up: what one command did is its own, also where several
    share a commit. Commands of one commit touch different jobs, so nothing counts twice."""
    return [(command, _with_usage(decision, state)) for command, decision in decided]


def _with_usage(decision: Decision[T], state: State) -> Decision[T]:
    used = usage_events(state, decision.events)
    return replace(decision, events=[*decision.events, *used]) if used else decision


def give_numbers(decided: Decided, last: int) -> int:
    """The number of each decision that is recorded as events; the last of them."""
    for command, decision in decided:
        if decision.events:
            last += 1
            command.decision_id = DecisionId(last, command.by)
    return last


def decision_ids(decided: Decided) -> list[DecisionId]:
    """The decision behind each event, in their order."""
    return [
        command.decision_id
        for command, decision in decided
        if command.decision_id is not None
        for _ in decision.events
    ]


def mark_recorded(decided: Decided) -> None:
    for command, decision in decided:
        if command.trail is not None and decision.audit:
            command.trail.recorded = True


def causes(decided: Decided) -> list[str | None]:
    """The request behind each event that was decided, in their order."""
    return [command.cause for command, decision in decided for _ in decision.events]


def new_jobs(decision: Decision[Any]) -> int:
    return sum(len(e.jobs) for e in decision.events if isinstance(e, JobsSubmitted))


def record_of(decided: Decided, events: Sequence[Event], state: State) -> Record:
    """What one commit writes for all of them, with the meters that the events will change."""
    record = _joined([_numbered(*one) for one in decided], events)
    record = replace(record, decisions=decision_ids(decided))
    meters = meter_documents(state, events) | spend_documents(state, events)
    return replace(record, documents={**record.documents, **meters}) if meters else record


def _numbered(command: Command, decision: Decision[T]) -> Decision[T]:
    """Its audit rows name the number that its events have."""
    if command.decision_id is None or not decision.audit:
        return decision
    number = command.decision_id.number
    return replace(decision, audit=[replace(row, decision=number) for row in decision.audit])


def _joined(decisions: list[Decision[Any]], events: Sequence[Event]) -> Record:
    if len(decisions) == 1:
        only = decisions[0]
        return Record(events, only.details, only.environments, only.documents, only.audit)
    details: dict[JobId, Detail] = {}
    environments: dict[str, Mapping[str, str]] = {}
    documents: dict[tuple[str, str], bytes | None] = {}
    audit: list[AuditRow] = []
    for decision in decisions:
        details.update(decision.details)
        environments.update(decision.environments)
        documents.update(decision.documents)
        audit += decision.audit
    return Record(events, details, environments, documents, audit)
