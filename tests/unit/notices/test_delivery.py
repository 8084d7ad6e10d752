"""From the feed to a target: what is told, to whom, and how often."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.service.eventually import eventually
from tests.unit.service.world import Box, a_box, a_submission
from tgpu.core.errors import NotFound
from tgpu.core.model.events import NodeSet
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Options
from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.tenant import Budget, OverBudget, Tenant, Window
from tgpu.notices.delivery import (
    MARK,
    Delivery,
    DeliveryMark,
    Rule,
    decode_mark,
    encode_mark,
)
from tgpu.notices.dispatch import Dispatch
from tgpu.notices.notice import Letter, Notice, NotSent
from tgpu.pauses import Pauses
from tgpu.service.recording.writer import Decision
from tgpu.store.memory import MemoryStore

ALL = frozenset({"start", "end", "failure", "preemption", "idle", "gpu", "deadline", "budget"})
QUICK = Pauses(0.001, 0.01)
DAY = 86_400_000


class Reader:
    """A target that remembers. `down`: tries that fail; `refuses`: for good."""

    where = "here"
    secrets: tuple[str, ...] = ("SECRET",)

    def __init__(self, most: int = 1) -> None:
        self.most = most
        self.letters: list[Letter] = []
        self.down = 0
        self.tries = 0
        self.refuses = False
        self.block = asyncio.Event()
        self.block.set()

    @property
    def notices(self) -> list[Notice]:
        return [letter.notice for letter in self.letters]

    @property
    def told(self) -> list[tuple[str, str | None]]:
        return [(notice.kind.value, notice.job_id) for notice in self.notices]

    async def send(self, letters: Sequence[Letter]) -> list[str]:
        await self.block.wait()
        self.tries += 1
        if self.down:
            self.down -= 1
            raise NotSent("https://x/SECRET is out of reach")
        if self.refuses:
            return ["404"]
        self.letters += letters
        return []

    async def close(self) -> None:
        pass


def a_rule(**fields: Any) -> Rule:
    return Rule(**({"name": "r", "kind": "webhook", "events": ALL} | fields))


@asynccontextmanager
async def told(
    reader: Reader, rule: Rule | None = None, **box_fields: Any
) -> AsyncIterator[tuple[Box, Delivery]]:
    """A service and one who is told of it."""
    async with a_box(**({"leases": True} | box_fields)) as box:
        delivery = Delivery(rule or a_rule(), reader, box.service, QUICK)
        dispatch = Dispatch(box.service, [delivery])
        await dispatch.open()
        try:
            yield box, delivery
        finally:
            box.service.feed.close()
            await dispatch.close()


async def run_through(box: Box, job_id: str = "j", **fields: Any) -> None:
    await box.submit(a_submission(job_id=job_id, **fields))
    await box.tick(5)
    await box.service.jobs.complete(JobId(job_id))


async def test_a_start_and_an_end_are_told_in_order():
    reader = Reader()
    async with told(reader) as (box, _):
        await run_through(box)
        await eventually(lambda: len(reader.letters) == 2)
    assert reader.told == [("start", "j"), ("end", "j")]


async def test_only_what_was_asked_for_is_told():
    reader = Reader()
    async with told(reader, a_rule(events=frozenset({"end"}))) as (box, _):
        await run_through(box)
        await eventually(lambda: reader.letters)
    assert reader.told == [("end", "j")]


async def test_a_failure_is_told_to_who_wants_ends():
    reader = Reader()
    engine_reader = a_rule(events=frozenset({"end"}))
    async with told(reader, engine_reader, leases=False) as (box, _):
        await box.submit(a_submission("false", job_id="j", name="train"))
        key = await box.run("j")
        box.engine.finish(key, exit_code=1)
        await eventually(lambda: reader.letters)
    (notice,) = reader.notices
    assert notice.kind == "end"
    assert notice.title == "job j (train) failed"
    assert notice.exit_code == 1
    assert "exit code: 1" in notice.text


async def test_a_cancelled_job_has_ended():
    reader = Reader()
    async with told(reader) as (box, _):
        await box.submit(a_submission(job_id="j"))
        await box.service.jobs.cancel(JobId("j"))
        await eventually(lambda: reader.letters)
    assert reader.notices[0].title == "job j was cancelled"


async def test_an_end_after_the_deadline_says_so():
    reader = Reader()
    async with told(reader, a_rule(events=frozenset({"deadline"}))) as (box, _):
        deadlines = {"late": 3, "in-time": 500, "later": 3}
        for job_id, deadline in deadlines.items():
            await box.submit(a_submission(job_id=job_id, options=Options(deadline_at=deadline)))
        await box.tick(5)
        for job_id in deadlines:
            await box.service.jobs.complete(JobId(job_id))
        await eventually(lambda: len(reader.letters) == 2)
    assert reader.told == [("deadline", "late"), ("deadline", "later")]
    assert reader.notices[0].title == "job late completed, after its deadline"


async def test_tenants_and_users_narrow_what_is_told():
    reader, tenants = Reader(), [Tenant(TenantId("a")), Tenant(TenantId("b"))]
    rule = a_rule(events=frozenset({"end"}), tenants=frozenset({"a"}), users=frozenset({"ada"}))
    async with told(reader, rule, tenants=tenants) as (box, _):
        for job_id, tenant, user in (("1", "a", "bob"), ("2", "b", "ada"), ("3", "a", "ada")):
            wish = a_submission(job_id=job_id, tenant=tenant)
            await box.submit(replace(wish, detail=replace(wish.detail, user=user)))
            await box.service.jobs.cancel(JobId(job_id))
        await eventually(lambda: reader.letters)
    assert reader.told == [("end", "3")]


# -- GPUs and budgets ---------------------------------------------------------------------------


async def set_problem(box: Box, problem: str | None, index: int = 0) -> None:
    node = box.service.state.ledger.nodes[NodeId("local")].node
    gpus = tuple(replace(g, problem=problem) if g.index == index else g for g in node.gpus)
    event = NodeSet(7, replace(node, gpus=gpus))
    await box.service.writer.do(lambda _: Decision(None, [event]), touches=None)


async def test_trouble_of_a_gpu_is_told_once_and_its_end_too():
    reader = Reader()
    async with told(reader) as (box, _):
        await set_problem(box, "Xid 79: fell off the bus")
        await set_problem(box, "Xid 79: fell off the bus")
        await set_problem(box, None)
        await eventually(lambda: len(reader.letters) == 2)
    assert [notice.title for notice in reader.notices] == [
        "GPU 0 of local has a problem",
        "GPU 0 of local is healthy again",
    ]
    assert reader.notices[0].cause == "Xid 79: fell off the bus"
    assert reader.notices[0].gpus == (0,)


async def test_trouble_that_was_there_before_is_no_news():
    reader, store = Reader(), MemoryStore()
    async with a_box(leases=True, store=store) as box:
        await set_problem(box, "lost")
        delivery = Delivery(a_rule(), reader, box.service, QUICK)
        dispatch = Dispatch(box.service, [delivery])
        await dispatch.open()
        await set_problem(box, "lost", index=1)
        await eventually(lambda: reader.letters)
        box.service.feed.close()
        await dispatch.close()
    assert [notice.gpus for notice in reader.notices] == [(1,)]


async def test_who_watches_some_tenants_hears_nothing_of_gpus():
    reader = Reader()
    async with told(reader, a_rule(tenants=frozenset({"default"}))) as (box, _):
        await set_problem(box, "lost")
        await run_through(box)
        await eventually(lambda: len(reader.letters) == 2)
    assert reader.told == [("start", "j"), ("end", "j")]


async def test_a_budget_that_is_used_up_is_told_once():
    budget = Budget(1000, Window.TOTAL, OverBudget.WARN)
    reader = Reader()
    rule = a_rule(events=frozenset({"budget"}))
    async with told(reader, rule, tenants=[Tenant(TenantId("default"), budget=budget)]) as (box, _):
        await box.submit(a_submission(job_id="j"))
        await box.tick(5)
        await box.tick(10_000)
        await box.tick(20_000)
        await eventually(lambda: reader.letters)
    assert [notice.title for notice in reader.notices] == ["tenant default has used up its budget"]


# -- mail that jobs ask for ------------------------------------------------------------------------


async def test_a_job_s_own_addresses_are_told_what_it_asked_for():
    reader = Reader()
    rule = a_rule(events=frozenset({"failure"}), for_jobs=True, job_domains=frozenset({"x.org"}))
    async with told(reader, rule, mail_domains=frozenset()) as (box, _):
        wish = a_submission(job_id="j")
        detail = replace(
            wish.detail, mail_to=("ada@x.org", "ada@elsewhere.org"), mail_on=("end", "start")
        )
        await box.submit(replace(wish, detail=detail))
        await box.tick(5)
        await box.service.jobs.complete(JobId("j"))
        await eventually(lambda: len(reader.letters) == 2)
    assert reader.told == [("start", "j"), ("end", "j")]
    assert {(letter.to_readers, letter.to_owner) for letter in reader.letters} == {
        (False, ("ada@x.org",))
    }


# -- trying again --------------------------------------------------------------------------------


async def test_what_cannot_be_sent_is_sent_later_in_order():
    reader = Reader()
    reader.down = 5
    async with told(reader) as (box, delivery):
        await run_through(box)
        await eventually(lambda: len(reader.letters) == 2)
        assert delivery.failed_tries == 5
        assert delivery.problem is None
    assert reader.told == [("start", "j"), ("end", "j")]


async def test_why_it_cannot_be_sent_is_shown_without_the_secret():
    reader = Reader()
    reader.down = 1_000_000
    async with told(reader) as (box, delivery):
        await run_through(box)
        await eventually(lambda: delivery.problem)
        assert delivery.problem == "https://x/******** is out of reach"


async def test_what_could_not_be_sent_for_too_long_is_dropped():
    reader = Reader()
    reader.down = 1_000_000
    async with told(reader, a_rule(retry_ms=DAY)) as (box, delivery):
        await run_through(box)
        await eventually(lambda: delivery.failed_tries)
        await box.tick(5 + 2 * DAY)
        await eventually(lambda: delivery.dropped == 2)
        reader.down = 0
        await box.submit(a_submission(job_id="k"))
        await box.service.jobs.cancel(JobId("k"))
        await eventually(lambda: reader.letters)
    assert reader.told == [("end", "k")]


async def test_what_is_refused_for_good_is_dropped_at_once():
    reader = Reader()
    reader.refuses = True
    async with told(reader) as (box, delivery):
        await run_through(box)
        await eventually(lambda: delivery.dropped == 2)
        assert delivery.failed_tries == 0


async def test_a_bug_of_a_target_costs_that_notice_alone(monkeypatch):
    reader = Reader()
    sound = reader.send

    async def unsound(letters):
        monkeypatch.setattr(reader, "send", sound)
        raise RuntimeError("a bug")

    monkeypatch.setattr(reader, "send", unsound)
    async with told(reader) as (box, delivery):
        await run_through(box)
        await eventually(lambda: reader.letters)
        assert delivery.dropped == 1
    assert reader.told == [("end", "j")]


async def test_what_piled_up_goes_in_few_messages():
    reader = Reader(most=50)
    reader.block.clear()
    async with told(reader, a_rule(events=frozenset({"end"}))) as (box, _):
        for number in range(100):
            await box.submit(a_submission(job_id=f"j{number:03}"))
            await box.service.jobs.cancel(JobId(f"j{number:03}"))
        reader.block.set()
        await eventually(lambda: len(reader.letters) == 100)
        assert reader.tries <= 5
    assert [job_id for _, job_id in reader.told] == [f"j{number:03}" for number in range(100)]


async def test_who_fell_out_of_the_ring_goes_on_from_the_journal():
    reader = Reader()
    reader.block.clear()
    async with told(reader, a_rule(events=frozenset({"end"}))) as (box, _):
        box.service.feed._ring._capacity = 10
        for number in range(60):
            await box.submit(a_submission(job_id=f"j{number:03}"))
            await box.service.jobs.cancel(JobId(f"j{number:03}"))
        assert box.service.feed.floor > 0
        reader.block.set()
        await eventually(lambda: len(reader.letters) == 60)
    assert [job_id for _, job_id in reader.told] == [f"j{number:03}" for number in range(60)]


async def test_a_target_that_hangs_keeps_nobody_else_waiting():
    stuck, other = Reader(), Reader()
    stuck.block.clear()
    async with a_box(leases=True) as box:
        rules = [a_rule(name="stuck"), a_rule(name="other")]
        deliveries = [
            Delivery(rule, reader, box.service, QUICK)
            for rule, reader in zip(rules, (stuck, other), strict=True)
        ]
        dispatch = Dispatch(box.service, deliveries)
        await dispatch.open()
        await run_through(box)
        await eventually(lambda: len(other.letters) == 2)
        assert await box.state_of("j") is JobState.COMPLETED
        stuck.block.set()
        box.service.feed.close()
        await dispatch.close()
    assert len(stuck.letters) == 2


# -- restarts --------------------------------------------------------------------------------------


async def test_after_a_restart_nothing_is_left_out_and_nothing_told_twice():
    reader, store = Reader(), MemoryStore()
    async with told(reader, store=store) as (box, _):
        await run_through(box, "first")
        await eventually(lambda: len(reader.letters) == 2)
    async with a_box(leases=True, store=store) as box:  # nobody is told in this life
        await run_through(box, "second")
    async with told(reader, store=store) as (box, _):
        await run_through(box, "third")
        await eventually(lambda: len(reader.letters) == 6)
    assert [job_id for kind, job_id in reader.told if kind == "end"] == ["first", "second", "third"]


async def test_what_was_not_sent_before_the_end_is_sent_in_the_next_life():
    reader, store = Reader(), MemoryStore()
    reader.down = 1_000_000
    async with told(reader, store=store) as (box, _):
        await run_through(box)
        await eventually(lambda: reader.tries)
    reader.down = 0
    async with told(reader, store=store):
        await eventually(lambda: len(reader.letters) == 2)
    assert reader.told == [("start", "j"), ("end", "j")]


class GoneAfterTwo(Reader):
    async def send(self, letters: Sequence[Letter]) -> list[str]:
        refused = await super().send(letters)
        if len(self.letters) == 2:
            self.down = 1_000_000
        return refused


async def test_of_many_at_once_only_those_are_sent_in_the_next_life_that_were_not_in_this():
    reader, store = GoneAfterTwo(most=1), MemoryStore()
    reader.block.clear()
    rule = a_rule(events=frozenset({"end"}))
    async with told(reader, rule, store=store) as (box, _):
        for number in range(4):
            await box.submit(a_submission(job_id=f"j{number}"))
            await box.service.jobs.cancel(JobId(f"j{number}"))
        reader.block.set()
        await eventually(lambda: reader.tries >= 3)
    reader.down = 0
    async with told(reader, rule, store=store):
        await eventually(lambda: len(reader.letters) >= 4)
    assert [job_id for _, job_id in reader.told] == ["j0", "j1", "j2", "j3"]


async def test_gpu_trouble_is_not_told_again_after_a_restart():
    reader, store = Reader(), MemoryStore()
    async with told(reader, store=store) as (box, _):
        await set_problem(box, "lost")
        await eventually(lambda: reader.letters)
    async with told(reader, store=store) as (box, _):
        await set_problem(box, "lost", index=1)
        await eventually(lambda: len(reader.letters) >= 2)
    assert reader.notices[0].gpus == (0,)


async def test_one_that_was_taken_out_of_the_settings_begins_anew():
    reader, store = Reader(), MemoryStore()
    async with told(reader, store=store):
        pass
    async with told(Reader(), a_rule(name="another"), store=store) as (box, _):
        await run_through(box, "meanwhile")
    assert set(await store.documents(MARK)) == {"another"}
    async with told(reader, store=store) as (box, _):
        await run_through(box, "new")
        await eventually(lambda: len(reader.letters) == 2)
    assert {job_id for _, job_id in reader.told} == {"new"}


async def test_a_record_that_cannot_be_read_is_no_reason_not_to_start():
    assert decode_mark(b"{}") is decode_mark(b"\xff") is None
    mark = DeliveryMark(7, {"n": {"0": "lost"}})
    assert decode_mark(encode_mark(mark)) == mark


async def test_a_journal_that_is_another_s_is_followed_from_now():
    reader = Reader()
    async with a_box(leases=True) as box:
        delivery = Delivery(a_rule(), reader, box.service, QUICK)
        delivery.open(DeliveryMark(10_000))
        task = asyncio.create_task(delivery.run())
        await eventually(lambda: delivery.mark.seq < 10_000)
        await run_through(box)
        await eventually(lambda: len(reader.letters) == 2)
        box.service.feed.close()
        await task
    assert reader.told == [("start", "j"), ("end", "j")]


# -- trying it out ---------------------------------------------------------------------------------


async def test_a_test_notice_is_sent_at_once():
    reader = Reader()
    async with told(reader) as (box, delivery):
        tried = await Dispatch(box.service, [delivery]).test("r")
    assert tried.problem is None
    assert reader.notices[0].kind == "test"


async def test_a_test_notice_that_does_not_get_through_says_why():
    reader = Reader()
    reader.down = 1
    async with told(reader) as (box, delivery):
        tried = await Dispatch(box.service, [delivery]).test("r")
    assert tried.problem == "https://x/******** is out of reach"


async def test_a_notice_that_there_is_not_cannot_be_tried():
    async with told(Reader()) as (box, delivery):
        with pytest.raises(NotFound, match="there are: r"):
            await Dispatch(box.service, [delivery]).test("s")
