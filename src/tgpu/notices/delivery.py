"""Delivers notices to one target, in order, with retries.

The feed is the queue: a target that is out of reach waits at its place in the journal, so nothing
piles up in memory and nobody else waits. Its place is on record and moves on after a message was
taken: what was being sent when the service was killed is sent again, and nothing is left out.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec
import structlog

from tgpu.core.errors import Unavailable
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.units import SECOND
from tgpu.notices.notice import Letter, Notice, NoticeKind, NoticeTarget, NotSent
from tgpu.notices.words import (
    Problems,
    budget_notice,
    gpu_notice,
    job_kinds,
    job_notice,
    problems_in,
)
from tgpu.pauses import Pauses
from tgpu.service.accounting.budget_enforcement import BudgetNotice
from tgpu.service.feed.feed import EventsGone, SlowReader, Subscription
from tgpu.service.feed.feed_event import FeedEvent
from tgpu.service.service import Service
from tgpu.store.api import JobQuery, StoredJob

MARK: Final = "notice_mark"  # documents: how far a target is

_log = structlog.get_logger("gpu_scheduler.notices")

_PAUSES: Final = Pauses(first_seconds=1.0, longest_seconds=300.0)
_TICK_SECONDS: Final = 1.0
_SELDOM_SECONDS: Final = 60.0  # between records of a place at which nothing was sent
_LATE_MS: Final = 60 * SECOND  # a notice may always be this old when it is first tried


@dataclass(frozen=True, slots=True)
class Rule:
    """What a target wants to hear."""

    name: str
    kind: str  # of target
    events: frozenset[str]
    tenants: frozenset[str] = frozenset()  # empty: all
    users: frozenset[str] = frozenset()
    for_jobs: bool = False  # sends what jobs ask for as well
    job_domains: frozenset[str] = frozenset()
    retry_ms: int = 86_400_000

    def takes(self, tenant_id: TenantId | None) -> bool:
        return not self.tenants or tenant_id in self.tenants

    def may_mail(self, address: str) -> bool:
        return not self.job_domains or address.rpartition("@")[2].lower() in self.job_domains


@dataclass(frozen=True, slots=True)
class DeliveryMark:
    """How far a target is, and what it was told that the journal's next rows are compared with."""

    seq: int
    problems: Mapping[str, Problems] = field(default_factory=dict)  # by node
    budgets: Mapping[TenantId, BudgetNotice] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Item:
    letter: Letter
    mark: DeliveryMark  # once it is sent


class Delivery:
    def __init__(
        self, rule: Rule, target: NoticeTarget, service: Service, pauses: Pauses = _PAUSES
    ) -> None:
        self.rule = rule
        self.target = target
        self.sent = 0
        self.dropped = 0
        self.failed_tries = 0
        self.problem: str | None = None  # why the last try failed; None once one worked
        self.mark = DeliveryMark(0)
        self._saved = DeliveryMark(-1)
        self._saved_at = 0.0  # on the monotonic clock
        self._service = service
        self._pauses = pauses

    @property
    def behind(self) -> int:
        """Events that it has not looked at yet."""
        return max(0, self._service.feed.last_seq - self.mark.seq)

    def open(self, mark: DeliveryMark | None) -> None:
        """Go on from there; without a mark, from now."""
        self.mark = self._saved = mark or self._now()
        if mark is None:
            self._saved = DeliveryMark(-1)

    async def run(self) -> None:
        """Until the service ends and all is sent."""
        while True:
            try:
                await self._follow(self._service.feed.subscribe(self.mark.seq))
                return
            except SlowReader:
                continue  # the journal has what the ring has not
            except EventsGone as gone:
                _log.warning("notices are dropped", notice=self.rule.name, problem=gone.message)
                self.mark = self._now()

    async def save(self) -> None:
        """Put on record how far it is."""
        mark = self.mark
        if mark == self._saved:
            return
        content = encode_mark(mark)
        documents = {(MARK, self.rule.name): content}
        try:
            await self._service.recorder.put_documents(documents)
        except Unavailable as error:
            _log.debug("cannot record how far the notices are", problem=error.message)
            return
        self._saved, self._saved_at = mark, time.monotonic()

    async def test(self, notice: Notice) -> str | None:
        """Send this one now; None, or what went wrong."""
        try:
            refused = await self.target.send([Letter(notice)])
        except NotSent as error:
            return self._masked(str(error))
        return self._masked("; ".join(refused)) if refused else None

    def _now(self) -> DeliveryMark:
        """Whoever begins here is told nothing of what was before."""
        return DeliveryMark(
            self._service.feed.last_seq,
            {
                node.node_id: problems
                for node in self._service.reads.nodes()
                if (problems := {str(g.index): g.problem for g in node.gpus if g.problem})
            },
            dict(self._service.notices.given),
        )

    async def _follow(self, subscription: Subscription) -> None:
        waiting: asyncio.Task[list[FeedEvent]] | None = None
        try:
            while True:
                waiting = waiting or asyncio.create_task(subscription.batch())
                await asyncio.wait({waiting}, timeout=_TICK_SECONDS)
                if waiting.done():
                    events, waiting = waiting.result(), None
                    if not events:  # the service ends
                        return
                    items, end = await self._items(events)
                    await self._tell(items)
                    self.mark = replace(end, seq=subscription.position)
                await self._tell(self._budgets())
                if time.monotonic() - self._saved_at >= _SELDOM_SECONDS:
                    await self.save()
        finally:
            if waiting is not None:
                waiting.cancel()

    # -- what to say -----------------------------------------------------------------------------

    async def _items(self, events: Sequence[FeedEvent]) -> tuple[list[_Item], DeliveryMark]:
        """What is to be told of these, and the mark once that is done."""
        jobs = await self._jobs(events)
        mark, found = self.mark, []
        for event in events:
            letter = None
            if event.kind == "node_changed":
                node = str(event.data.get("node"))
                letter = self._gpu_letter(event, mark.problems.get(node, {}))
                mark = replace(mark, problems={**mark.problems, node: problems_in(event)})
            elif event.job_id is not None:
                letter = self._job_letter(event, jobs.get(event.job_id))
            mark = replace(mark, seq=event.seq)
            if letter is not None:
                found.append(_Item(letter, mark))
        return found, mark

    async def _jobs(self, events: Sequence[FeedEvent]) -> dict[JobId, StoredJob]:
        wanted = self.rule.events
        asked = {
            event.job_id: None
            for event in events
            if event.job_id is not None
            and (kinds := job_kinds(event))
            and (self.rule.for_jobs or any(kind in wanted for kind in kinds))
            and (self.rule.for_jobs or self.rule.takes(event.tenant_id))
        }
        if not asked:
            return {}
        query = JobQuery(job_ids=tuple(asked), limit=len(asked))
        return {stored.job.job_id: stored for stored in await self._service.store.jobs(query)}

    def _job_letter(self, event: FeedEvent, job: StoredJob | None) -> Letter | None:
        rule = self.rule
        if job is None:
            return None  # not asked for above: nobody wants to hear of it
        notice = None
        if rule.takes(event.tenant_id) and (not rule.users or job.detail.user in rule.users):
            notice = job_notice(event, job, rule.events)
        owners = tuple(address for address in job.detail.mail_to if rule.may_mail(address))
        own = job_notice(event, job, job.detail.mail_on) if rule.for_jobs and owners else None
        if own is not None:
            return Letter(notice or own, notice is not None, owners)
        return None if notice is None else Letter(notice)

    def _gpu_letter(self, event: FeedEvent, before: Problems) -> Letter | None:
        rule = self.rule
        if NoticeKind.GPU not in rule.events or rule.tenants or rule.users:
            return None
        notice = gpu_notice(event, before)
        return None if notice is None else Letter(notice)

    def _budgets(self) -> list[_Item]:
        given = self._service.notices.given
        if NoticeKind.BUDGET not in self.rule.events or self.rule.users:
            return []
        mark, found, now = self.mark, [], self._service.clock.now()
        for tenant_id, reached in given.items():
            if self.rule.takes(tenant_id) and mark.budgets.get(tenant_id) != reached:
                mark = replace(mark, budgets={**mark.budgets, tenant_id: reached})
                found.append(_Item(Letter(budget_notice(tenant_id, reached, now)), mark))
        return found

    # -- saying it -------------------------------------------------------------------------------

    async def _tell(self, items: Sequence[_Item]) -> None:
        for start in range(0, len(items), self.target.most):
            part = items[start : start + self.target.most]
            await self._deliver([item.letter for item in part])
            self.mark = part[-1].mark
            # Not after each of many: a kill repeats what a second has sent, at the most.
            if time.monotonic() - self._saved_at >= _TICK_SECONDS:
                await self.save()
        if items:
            await self.save()

    async def _deliver(self, letters: Sequence[Letter]) -> None:
        letters = self._young(letters, self.rule.retry_ms + _LATE_MS)
        pause = self._pauses.first_seconds
        while letters:
            try:
                refused = await self.target.send(letters)
            except NotSent as error:
                self._failed(error)
                wait = min(max(pause, error.after_seconds), self._pauses.longest_seconds)
                letters = self._young(letters, self.rule.retry_ms - round(wait * SECOND))
                if letters:
                    await asyncio.sleep(wait)
                pause = self._pauses.after(pause)
            except Exception:  # a bug of ours must not keep the others from being told
                _log.exception("a notice could not be made", notice=self.rule.name)
                self._drop(letters, "a bug of the service")
                return
            else:
                self._was_sent(letters, refused)
                return

    def _young(self, letters: Sequence[Letter], most_ms: int) -> list[Letter]:
        """Without those that are too old to be tried (again)."""
        now = self._service.clock.now()
        old = [letter for letter in letters if now - letter.notice.at > most_ms]
        if old:
            self._drop(old, self.problem or "too old")
        return [letter for letter in letters if letter not in old]

    def _failed(self, error: NotSent) -> None:
        self.failed_tries += 1
        problem = self._masked(str(error))
        if self.problem is None:  # once for each time that it is out of reach
            _log.warning(
                "notices cannot be sent; trying again",
                notice=self.rule.name,
                where=self.target.where,
                problem=problem,
            )
        self.problem = problem

    def _was_sent(self, letters: Sequence[Letter], refused: Sequence[str]) -> None:
        if self.problem is not None:
            _log.info("notices are sent again", notice=self.rule.name)
        self.problem = None
        self.sent += max(0, len(letters) - len(refused))
        for problem in refused:
            self.dropped += 1
            _log.warning(
                "a notice was refused", notice=self.rule.name, problem=self._masked(problem)
            )

    def _drop(self, letters: Sequence[Letter], problem: str) -> None:
        self.dropped += len(letters)
        _log.warning(
            "notices are dropped",
            notice=self.rule.name,
            count=len(letters),
            first=letters[0].notice.title,
            problem=self._masked(problem),
        )

    def _masked(self, text: str) -> str:
        for secret in self.target.secrets:
            text = text.replace(secret, "********")
        return text


def encode_mark(mark: DeliveryMark) -> bytes:
    return msgspec.json.encode(mark)


def decode_mark(content: bytes) -> DeliveryMark | None:
    """None where it cannot be read: who was told begins anew, and the service starts."""
    try:
        return msgspec.json.decode(content, type=DeliveryMark)
    except (msgspec.DecodeError, ValueError):
        return None
