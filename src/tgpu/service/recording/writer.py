"""The one writer: decides commands on the committed state, records them in groups, applies them.

Every change of the state goes through `Writer.do`. Commands that arrive while a commit is under
way are decided together afterwards and share the next one, so durability costs one disk flush for
many commands. Each is decided on committed state alone: two commands that touch the same job
never share a group, and the second sees what the first did.

A store that fails several times in a row is left alone (`breaker.py`): commands are refused at
once, and the writer itself tries now and then whether it works again. One that hangs keeps nobody
waiting: callers are told that the outcome is not known, while the writer waits for it, since what
was recorded must reach the state. Where that fails, state and store are apart for good: the writer
ends, and with it the service, to start clean from the store.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

import structlog

from tgpu.breaker import CLOSED, BreakerRules
from tgpu.core.check import check_invariants
from tgpu.core.errors import InvariantBroken, SchedulerError, Unavailable
from tgpu.core.model.events import Event
from tgpu.core.model.units import SECOND
from tgpu.core.state.cluster_state import State
from tgpu.log import request_id
from tgpu.service.recording import audit
from tgpu.service.recording.decision import (
    Command,
    Decide,
    Decided,
    Decision,
    audited,
    causes,
    decision_ids,
    give_numbers,
    mark_recorded,
    new_jobs,
    record_of,
    with_usage,
)
from tgpu.service.recording.observer import Observer
from tgpu.store.api import (
    Decider,
    DecisionId,
    Record,
    Store,
    StoreChanged,
    StoreUnavailable,
)

__all__ = ["Decide", "Decision", "StateApart", "Writer"]

_log = structlog.get_logger("gpu_scheduler.writer")

T = TypeVar("T")

# How many jobs one commit may insert or move: a flush of this size stays well under a second, so
# a bulk load cannot keep a single submit waiting.
_GROUP_LIMIT = 10_000
_LARGE = 1_000  # events of one commit: between the steps of more than this others get their turn
_RULES = BreakerRules(failures=3, retry_ms=2_000)
_PROBE = ("probe", "store")  # a document, written to see whether anything can be


# A commit takes milliseconds, one of 10,000 jobs a second: from here on something is wrong.
SLOW_SECONDS = 3.0
_PATIENCE_SECONDS = 10.0
_PING_SECONDS = 2.0
_CHECK_SECONDS = 60.0  # between two looks through the whole state, which may be large


class StateApart(Unavailable):
    """The state is not what the store has: nothing more may be decided on it."""

    def __init__(self, cause: str) -> None:
        super().__init__(
            "the scheduler exits after a failure, to restart from its database;"
            " running jobs continue. Check whether your request took effect, then try again"
        )
        self.cause = cause


class Writer:
    def __init__(
        self,
        state: State,
        store: Store,
        published: Callable[[Sequence[Event]], None],
        observer: Observer | None = None,
        recorded: Callable[[Sequence[Event], int, Sequence[DecisionId]], None] | None = None,
        *,
        rules: BreakerRules = _RULES,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        """`published` is told the events of each commit, after they are applied; `recorded` just
        before, with the last one's number in the journal and the decision behind each.
        """
        self._recorded = recorded
        self._observer = observer or Observer()
        self.state = state
        self._store = store
        self._rules = rules
        self.breaker = CLOSED
        self._published = published
        self._commands: deque[Command] = deque()
        self._arrived = asyncio.Event()
        self._closed = False
        self._patience_seconds = patience_seconds
        self._committing: Decided = ()
        self._began: float | None = None  # the commit that is under way, on the monotonic clock
        self.is_stuck = False  # a commit takes longer than anybody should be kept waiting
        self._checked = -math.inf
        self._asked_at = 0.0  # when the store last answered, on the loop's clock
        self.apart: StateApart | None = None  # once this is set, nothing works any more
        # Jobs that commands before this one in its group bring in: decided, and not in the state.
        self.joining = 0
        self.last_decision = 0  # the number of the last one on record
        self.trouble: str | None = None  # why the last commit failed; None after one that worked

    async def do(
        self,
        decide: Decide[T],
        touches: Iterable[str] | None,
        *,
        is_patient: bool = False,
        by: Decider | None = None,
    ) -> T:
        """Decide, record durably, apply; the answer, or what `decide` or the store raised.

        While the store hangs, StoreUnavailable comes after `patience_seconds` and says what is
        known of the outcome. `is_patient` waits for the outcome instead. `by` is who decides;
        None: the caller whose request it is, or else the service by itself.
        """
        if self.apart is not None:
            raise self.apart
        if self._closed:
            raise Unavailable("the service is stopping; try again in a moment")
        if not self.breaker.is_closed or (self.is_stuck and not is_patient):
            raise self._refusal()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        keys = None if touches is None else frozenset(touches)
        weight = len(keys) if keys else 1
        trail = audit.current()
        if by is None:
            by = Decider.SERVICE if trail is None else Decider.COMMAND
        command = Command(decide, keys, future, weight, request_id.get(), trail, is_patient, by)
        self._commands.append(command)
        self._arrived.set()
        return await future

    async def run(self) -> None:
        """Serve commands until closed and empty. Raises StateApart, and then is of no more use."""
        self._asked_at = asyncio.get_running_loop().time()
        while not (self._closed and not self._commands):
            await self._wait_for_commands()
            while self._commands:
                group = self._next_group()
                if self.breaker.is_closed:
                    await self._serve(group)
                else:  # it opened while they waited
                    for command in group:
                        command.fail(self._refusal())

    def close(self) -> None:
        """Take no more commands; `run` ends when those taken are served."""
        self._closed = True
        self._arrived.set()

    @property
    def problem(self) -> str | None:
        """What is wrong with the store right now, without asking it; None when all is well."""
        if self.apart is not None:
            return f"{self.apart.cause}; the service exits to restart from its database"
        if self.trouble is None or self._hangs is not None:
            return self._hangs
        is_left = not self.breaker.is_closed
        then = "; nothing is recorded or decided until it works again" if is_left else ""
        return f"{self.trouble}{then}"

    @property
    def _hangs(self) -> str | None:
        seconds = 0.0 if self._began is None else time.monotonic() - self._began
        if not self.is_stuck and seconds < SLOW_SECONDS:
            return None
        return f"{self._store.name} has not answered for {seconds:.0f} s; running jobs continue"

    def unknown(self) -> StoreUnavailable:
        """For those who cannot be kept waiting while a commit is under way."""
        wait = math.ceil(self._rules.retry_ms / SECOND)
        return StoreUnavailable(
            f"the store hangs: {self._hangs}. Whether this was recorded is not known yet: check "
            f"before you repeat it, in {wait} s",
            [{"retry_after_seconds": wait, "outcome": "unknown"}],
            is_outcome_known=False,
        )

    async def _wait_for_commands(self) -> None:
        """While nothing is recorded the store is asked now and then whether it is there: it may
        hang unnoticed. While the breaker is open no commands come, and it is tried instead."""
        every = _PING_SECONDS if self.breaker.is_closed else self._rules.retry_ms / SECOND
        try:
            async with asyncio.timeout_at(self._asked_at + every):
                await self._arrived.wait()
            self._arrived.clear()
        except TimeoutError:
            await self._probe()

    async def _probe(self) -> None:
        is_closed = self.breaker.is_closed
        try:
            if is_closed:
                await self._watched(self._store.ping(), ())
            else:
                now = str(time.time_ns()).encode()
                record = Record([], documents={_PROBE: now})
                await self._watched(self._store.commit(record), ())
        except Exception as error:
            self._failed(error)
            self._part_if_apart(error, ())
        else:
            if not is_closed:  # that it answers does not mean that it takes what failed
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
                "the store fails: nothing is recorded or decided until it works, jobs continue",
                problem=self.trouble,
            )

    def _refusal(self) -> StoreUnavailable:
        wait = math.ceil(self._rules.retry_ms / SECOND)
        return StoreUnavailable(
            f"the store fails: {self._hangs or self.trouble}. Nothing was recorded;"
            f" try again in {wait} s",
            [{"retry_after_seconds": wait}],
        )

    def _next_group(self) -> list[Command]:
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

    async def _serve(self, group: list[Command]) -> None:
        decided = self._decide(group)
        await self._let_others_in(decided)
        decided = with_usage(decided, self.state)
        last_decision = give_numbers(decided, self.last_decision)
        events = [event for _, decision in decided for event in decision.events]
        await self._let_others_in(decided)
        record = record_of(decided, events, self.state)
        await self._let_others_in(decided)
        if events or record.documents or record.audit:
            began = time.perf_counter()
            try:
                last_seq = await self._watched(self._store.commit(record), decided)
            except Exception as error:
                self._failed(error)
                self._part_if_apart(error, group)
                for command, _ in decided:
                    command.fail(error)
                return
            except BaseException:
                self._part("a commit was not waited for", group)
            self.last_decision = last_decision
            self._apply(decided, events, last_seq, time.perf_counter() - began)
        self._answer(decided)

    async def _let_others_in(self, decided: Decided) -> None:
        """To read: nothing else is decided before this group is on record, cycles included."""
        if sum(len(decision.events) for _, decision in decided) > _LARGE:
            await asyncio.sleep(0)

    def _decide(self, group: list[Command]) -> Decided:
        decided: list[tuple[Command, Decision[Any]]] = []
        self.joining = 0
        for command in group:
            try:
                decision = audited(command, command.decide(self.state), self.state)
            except Exception as error:  # a bad command must not take the writer down
                command.fail(error)
                self._doubt(error, group)
            else:
                decided.append((command, decision))
                self.joining += new_jobs(decision)
        return decided

    async def _watched(self, asked: Awaitable[T], decided: Decided) -> T:
        """Until the store says what came of it; who waits for that hears of it in time."""
        self._committing, self._began = decided, time.monotonic()
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._patience_seconds, self._lose_patience)
        try:
            return await asked
        finally:
            timer.cancel()
            self._committing, self._began, self.is_stuck = (), None, False
            self._asked_at = loop.time()

    def _lose_patience(self) -> None:
        _log.error("the store hangs: nothing is recorded until it answers", store=self._store.name)
        self.is_stuck = True
        unknown = self.unknown()
        for command, _ in self._committing:
            if not command.is_patient:
                command.fail(unknown)
        waiting, self._commands = self._commands, deque()
        for command in waiting:
            if command.is_patient:
                self._commands.append(command)
            else:
                command.fail(self._refusal())

    def _apply(
        self, decided: Decided, events: Sequence[Event], last_seq: int, seconds: float
    ) -> None:
        """What is durable becomes true here, all of it: where that fails nothing may go on."""
        try:
            self._worked()
            mark_recorded(decided)
            decisions = decision_ids(decided)
            self._observer.committed(events, causes(decided), seconds, decisions)
            if self._recorded is not None and events:
                self._recorded(events, last_seq, decisions)
            for event in events:
                self.state.apply(event)
            self._published(events)
        except BaseException as error:
            self._part_by(error, decided)

    def _answer(self, decided: Decided) -> None:
        try:
            for _, decision in decided:
                if decision.applied is not None:
                    decision.applied()
        except BaseException as error:
            self._part_by(error, decided)
        for command, decision in decided:
            command.answer(decision.answer)

    def _part_by(self, error: BaseException, decided: Decided) -> NoReturn:
        _log.exception("what was recorded did not reach the state")
        self._part(f"{type(error).__name__}: {error}", [command for command, _ in decided])

    def _doubt(self, error: Exception, group: Sequence[Command]) -> None:
        """A bug may have left a trial half undone in the state: then it is not the store's."""
        if isinstance(error, SchedulerError) and not isinstance(error, InvariantBroken):
            return  # a refusal
        now = time.monotonic()
        if now - self._checked < _CHECK_SECONDS:
            return
        self._checked = now
        try:
            check_invariants(self.state)
        except InvariantBroken as broken:
            self._part(str(broken), group)

    def _part_if_apart(self, error: Exception, group: Sequence[Command]) -> None:
        """Somebody else wrote, the tables contradict the state, or nobody knows the outcome."""
        is_unknown = isinstance(error, StoreUnavailable) and not error.is_outcome_known
        if is_unknown or isinstance(error, StoreChanged | InvariantBroken):
            self._part(str(error), group)

    def _part(self, cause: str, group: Sequence[Command] = ()) -> NoReturn:
        """State and store are apart. Nobody is left waiting, and nobody decides any more."""
        self.apart = StateApart(cause)
        for command in (*group, *self._commands):
            command.fail(self.apart)
        self._commands.clear()
        raise self.apart
