"""The one writer: decides commands on the committed state, records them in groups, applies them.

Every change of the state goes through `Writer.do`. Commands that arrive while a commit is under
way are decided together afterwards and share the next one, so durability costs one disk flush for
many commands. Each is decided on committed state alone: two commands that touch the same job
never share a group, and the second sees what the first did.

A store that fails several times in a row is left alone (`core/breaker.py`): commands are refused at
once, and the writer itself tries now and then whether it works again.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import structlog

from gpu_scheduler.core.breaker import CLOSED, BreakerRules
from gpu_scheduler.core.errors import Unavailable
from gpu_scheduler.core.events import Event, JobsSubmitted
from gpu_scheduler.core.ids import JobId
from gpu_scheduler.core.job import Detail
from gpu_scheduler.core.state import State
from gpu_scheduler.core.units import SECOND
from gpu_scheduler.log import request_id
from gpu_scheduler.service import audit
from gpu_scheduler.service.accounting import meter_documents, usage_events
from gpu_scheduler.service.observer import Observer
from gpu_scheduler.service.spending import spend_documents
from gpu_scheduler.store.api import AuditRow, Record, Store, StoreUnavailable

_log = structlog.get_logger("gpu_scheduler.writer")

T = TypeVar("T")

# How many jobs one commit may insert or move: a flush of this size stays well under a second, so
# a bulk load cannot keep a single submit waiting.
_GROUP_LIMIT = 10_000
_RULES = BreakerRules(failures=3, retry_ms=2_000)
_PROBE = ("probe", "store")  # a document, written to see whether anything can be


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """What a command decided: events to record, and the answer once they are."""

    answer: T
    events: Sequence[Event] = ()
    details: Mapping[JobId, Detail] = field(default_factory=dict)
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    documents: Mapping[tuple[str, str], bytes | None] = field(default_factory=dict)
    audit: Sequence[AuditRow] = ()


Decide = Callable[[State], Decision[T]]


@dataclass(slots=True)
class _Command:
    decide: Decide[Any]
    touches: frozenset[str] | None  # job ids; None: everything, so it is decided alone
    future: asyncio.Future[Any]
    weight: int = 1
    cause: str | None = None  # the request it came with
    trail: audit.Trail | None = None  # whose doing it is; None: the service's own


class Writer:
    def __init__(
        self,
        state: State,
        store: Store,
        published: Callable[[Sequence[Event]], None],
        observer: Observer | None = None,
        recorded: Callable[[Sequence[Event], int], None] | None = None,
        *,
        rules: BreakerRules = _RULES,
    ) -> None:
        """`published` is told the events of each commit, after they are applied; `recorded` just
        before, with the last one's number in the journal.
        """
        self._recorded = recorded
        self._observer = observer or Observer()
        self.state = state
        self._store = store
        self._rules = rules
        self.breaker = CLOSED
        self._published = published
        self._commands: deque[_Command] = deque()
        self._arrived = asyncio.Event()
        self._closed = False
        # Jobs that commands before this one in its group bring in: decided, and not in the state.
        self.joining = 0
        self.trouble: str | None = None  # why the last commit failed; None after one that worked

    async def do(self, decide: Decide[T], touches: Iterable[str] | None) -> T:
        """Decide, record durably, apply; the answer, or what `decide` or the store raised."""
        if self._closed:
            raise Unavailable("the service is stopping; try again in a moment")
        if not self.breaker.is_closed:
            raise self._refusal()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        keys = None if touches is None else frozenset(touches)
        weight = len(keys) if keys else 1
        command = _Command(decide, keys, future, weight, request_id.get(), audit.current())
        self._commands.append(command)
        self._arrived.set()
        return await future

    async def run(self) -> None:
        """Serve commands until closed and empty."""
        while not (self._closed and not self._commands):
            await self._wait_for_commands()
            while self._commands:
                group = self._next_group()
                if self.breaker.is_closed:
                    await self._serve(group)
                else:  # it opened while they waited
                    for command in group:
                        _fail(command, self._refusal())

    def close(self) -> None:
        """Take no more commands; `run` ends when those taken are served."""
        self._closed = True
        self._arrived.set()

    async def _wait_for_commands(self) -> None:
        """While the breaker is open none come, and the store is tried instead."""
        pause = None if self.breaker.is_closed else self._rules.retry_ms / SECOND
        try:
            async with asyncio.timeout(pause):
                await self._arrived.wait()
            self._arrived.clear()
        except TimeoutError:
            await self._probe()

    async def _probe(self) -> None:
        try:
            now = str(time.time_ns()).encode()
            await self._store.commit(Record([], documents={_PROBE: now}))
        except Exception as error:
            self._failed(error)
        else:
            self._worked()

    def _worked(self) -> None:
        self.trouble = None
        was, self.breaker = self.breaker, CLOSED
        if not was.is_closed:
            self._observer.breaker_changed("store", self.breaker.state)
            _log.info("the store takes commits again")

    def _failed(self, error: Exception) -> None:
        self.trouble = str(error)
        self._observer.commit_failed(self.trouble)
        if not isinstance(error, StoreUnavailable):
            return  # what was to be committed was wrong, not the store
        now = time.monotonic_ns() // 1_000_000
        was, self.breaker = self.breaker, self.breaker.failed(now, self.trouble, self._rules)
        if was.is_closed and not self.breaker.is_closed:
            self._observer.breaker_changed("store", self.breaker.state)
            _log.error(
                "the store fails: nothing is recorded or decided until it works, jobs go on",
                problem=self.trouble,
            )

    def _refusal(self) -> StoreUnavailable:
        wait = math.ceil(self._rules.retry_ms / SECOND)
        return StoreUnavailable(
            f"the store fails: {self.trouble}. Nothing was recorded; try again in {wait} s",
            [{"retry_after_seconds": wait}],
        )

    def _next_group(self) -> list[_Command]:
        group = [self._commands.popleft()]
        if group[0].touches is None:
            return group
        touched = set(group[0].touches)
        weight = group[0].weight
        while self._commands and weight < _GROUP_LIMIT:
            candidate = self._commands[0]
            if candidate.touches is None or not touched.isdisjoint(candidate.touches):
                break
            group.append(self._commands.popleft())
            touched |= candidate.touches
            weight += candidate.weight
        return group

    async def _serve(self, group: list[_Command]) -> None:
        decided: list[tuple[_Command, Decision[Any]]] = []
        self.joining = 0
        for command in group:
            try:
                decision = command.decide(self.state)
            except Exception as error:  # a bad command must not take the writer down
                _fail(command, error)
            else:
                decided.append((command, _audited(command, decision, self.state)))
                self.joining += _new_jobs(decision)
        events = [event for _, decision in decided for event in decision.events]
        events += usage_events(self.state, events)
        record = _record([decision for _, decision in decided], events)
        record = _with_meters(record, self.state)
        if events or record.documents or record.audit:
            began = time.perf_counter()
            try:
                last_seq = await self._store.commit(record)
            except Exception as error:
                self._failed(error)
                for command, _ in decided:
                    _fail(command, error)
                return
            self._worked()
            _mark_recorded(decided)
            self._observer.committed(events, _causes(decided), time.perf_counter() - began)
            try:
                if self._recorded is not None and events:
                    self._recorded(events, last_seq)
                for event in events:
                    self.state.apply(event)
                self._published(events)
            except Exception as error:  # a bug; nobody may be left waiting for ever because of it
                for command, _ in decided:
                    _fail(command, error)
                raise
        for command, decision in decided:
            _answer(command, decision)


def _audited(command: _Command, decision: Decision[Any], state: State) -> Decision[Any]:
    """With the row about it: a change and who made it are on record together or not at all."""
    if command.trail is None or not (decision.events or decision.documents):
        return decision
    row = audit.row_of_change(command.trail, decision.events, state)
    return replace(decision, audit=(*decision.audit, row))


def _mark_recorded(decided: list[tuple[_Command, Decision[Any]]]) -> None:
    for command, decision in decided:
        if command.trail is not None and decision.audit:
            command.trail.recorded = True


def _causes(decided: list[tuple[_Command, Decision[Any]]]) -> list[str | None]:
    """The request behind each event that was decided, in their order."""
    return [command.cause for command, decision in decided for _ in decision.events]


def _new_jobs(decision: Decision[Any]) -> int:
    return sum(len(e.jobs) for e in decision.events if isinstance(e, JobsSubmitted))


def _record(decisions: list[Decision[Any]], events: list[Event]) -> Record:
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


def _with_meters(record: Record, state: State) -> Record:
    """With the meters that its events will change: fair shares and budgets."""
    meters = meter_documents(state, record.events) | spend_documents(state, record.events)
    return replace(record, documents={**record.documents, **meters}) if meters else record


def _answer(command: _Command, decision: Decision[Any]) -> None:
    if not command.future.done():  # the caller may have gone away
        command.future.set_result(decision.answer)


def _fail(command: _Command, error: Exception) -> None:
    if not command.future.done():  # the caller may have gone away
        command.future.set_exception(error)
