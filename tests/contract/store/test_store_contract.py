"""What every store promises. The same tests run on each of them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.store import builders
from tests.contract.store.builders import (
    a_job,
    audited,
    cancelled,
    completed,
    is_over,
    running,
    started,
    submission,
    submitted,
)
from tgpu.core.errors import Duplicate, InvariantBroken
from tgpu.core.model.events import (
    ClockStepped,
    Event,
    JobChanged,
    JobMoved,
    JobsSubmitted,
    MixSet,
    NodeSet,
    QueueRemoved,
    QueueSet,
    SettingsSet,
    TenantSet,
    TimePassed,
    UsageAdded,
)
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import NO_DETAIL, Array, Detail, Job, Options
from tgpu.core.model.lifecycle import PENDING, PENDING_HELD, JobState, Move, Progress
from tgpu.core.model.node import Gpu, Node
from tgpu.core.model.request_profile import RequestProfile, RequestShape
from tgpu.core.model.tenant import Tenant, TenantQueue
from tgpu.core.model.usage import GpuTimeUsage
from tgpu.core.state.clock_step import shifted
from tgpu.store.api import (
    AuditRow,
    DailyUsage,
    Decider,
    DecisionId,
    FoldedJob,
    JobQuery,
    LoadedState,
    Record,
    Store,
)
from tgpu.store.event_codec import decode_details, decode_event
from tgpu.store.memory import MemoryStore
from tgpu.store.postgres import PostgresStore
from tgpu.store.sqlite import SqliteStore

MakeStore = Callable[[], Store]


_schemas = count(1)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Makes a new, empty store at each call."""
    made = count(1)
    match request.param:
        case "memory":
            return MemoryStore
        case "sqlite":
            return lambda: SqliteStore(tmp_path / f"{next(made)}" / "tgpu.db")
    # Only here, so that the others run where there is no server.
    server = request.getfixturevalue("postgres_server")
    return lambda: PostgresStore(server.socket_url(), schema=f"contract_{next(_schemas)}")


@pytest.fixture
async def store(make_store: MakeStore) -> AsyncIterator[Store]:
    async with opened(make_store()) as store:
        yield store


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[Store]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def reopened(store: Store) -> LoadedState:
    await store.close()
    return await store.open()


def ids(found: list) -> list[str]:
    return [each.job.job_id for each in found]


async def everything(store: Store) -> tuple:
    """All that can be read, to compare before and after."""
    journal = await store.journal(0, 10_000)
    documents = await store.documents("key")
    tables = (await store.usage(0), await store.audit(), documents)
    return journal, await store.jobs(JobQuery(limit=10_000)), tables, await reopened(store)


# -- opening -----------------------------------------------------------------------------------


async def test_a_new_store_is_empty(make_store: MakeStore) -> None:
    store = make_store()
    loaded = await store.open()
    await store.close()
    over = {JobState.COMPLETED: 0, JobState.FAILED: 0, JobState.CANCELLED: 0}
    assert loaded == LoadedState((), (), (), {}, (), over, 0, 0)


async def test_the_name_is_for_people(store: Store) -> None:
    assert store.name


async def test_jobs_that_are_not_over_are_loaded_in_the_order_they_came(store: Store) -> None:
    await store.commit(submission("b", "a", "d", "c"))
    await store.commit(Record([started("a"), cancelled("d")]))
    loaded = await reopened(store)
    assert [job.job_id for job, _ in loaded.live] == ["b", "a", "c"]
    assert loaded.live[1] == (a_job("a"), started("a").progress)


async def test_a_job_keeps_its_identity_in_its_row_and_in_the_journal(store: Store) -> None:
    bulk = tuple(replace(a_job(job_id), nonce="n" * 32) for job_id in ("a", "b"))
    single = replace(a_job("c"), nonce="m" * 32)
    await store.commit(Record([JobsSubmitted(1, bulk), JobsSubmitted(2, (single,))]))
    changed = replace(bulk[0], priority=7)
    await store.commit(Record([JobChanged(3, changed)]))
    loaded = await reopened(store)
    assert [job for job, _ in loaded.live] == [changed, bulk[1], single]
    assert len({job.identity for job, _ in loaded.live}) == 3
    rows = await store.journal(0, 10)
    assert [decode_event(row.kind, row.payload) for row in rows][:2] == [
        JobsSubmitted(1, bulk),
        JobsSubmitted(2, (single,)),
    ]
    (row,) = await store.journal(0, 1, JobId("b"))
    assert decode_event(row.kind, row.payload) == JobsSubmitted(1, (bulk[1],))
    found = await store.job(JobId("b"))
    assert found is not None
    assert found.job == bulk[1]


async def test_jobs_that_are_over_are_counted_by_state(store: Store) -> None:
    await store.commit(submission("a", "b", "c", "d"))
    await store.commit(Record([cancelled("a"), cancelled("b"), completed("c")]))
    assert (await reopened(store)).over == {
        JobState.CANCELLED: 2,
        JobState.COMPLETED: 1,
        JobState.FAILED: 0,
    }


async def test_numbers_go_on_after_a_restart(store: Store) -> None:
    await store.commit(submission("a", "b"))
    loaded = await reopened(store)
    assert (loaded.last_seq, loaded.last_number) == (1, 2)
    assert await store.commit(submission("c")) == 2
    stored = await store.job(JobId("c"))
    assert stored is not None
    assert stored.number == 3


async def test_held_jobs_are_loaded_as_held(store: Store) -> None:
    await store.commit(Record([submitted(a_job("a"), a_job("b"), held=("b",))]))
    loaded = await reopened(store)
    assert [progress for _, progress in loaded.live] == [PENDING, PENDING_HELD]


async def test_equal_requests_are_one_object_after_loading(store: Store) -> None:
    await store.commit(submission("a", "b"))
    (first, _), (second, _) = (await reopened(store)).live
    assert first.request is second.request
    assert first.options is second.options


# -- round trips -------------------------------------------------------------------------------

ROUND_TRIP = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@ROUND_TRIP
@given(job=builders.jobs, detail=builders.details, progress=builders.progresses)
def test_any_job_comes_back_as_it_was(
    make_store: MakeStore, job: Job, detail: Detail, progress: Progress
) -> None:
    async def go() -> None:
        async with opened(make_store()) as store:
            await store.commit(Record([JobsSubmitted(1, (job,))], {job.job_id: detail}))
            fresh = await store.job(job.job_id)
            await store.commit(Record([JobMoved(2, job.job_id, Move.RUN, progress)]))
            moved = await store.job(job.job_id)
            loaded = await reopened(store)
            assert fresh is not None
            assert moved is not None
            assert (fresh.job, fresh.detail, fresh.progress) == (job, detail, PENDING)
            assert (moved.job, moved.detail, moved.progress) == (job, detail, progress)
            assert loaded.live == (() if is_over(progress) else ((job, progress),))

    asyncio.run(go())


@ROUND_TRIP
@given(job=builders.jobs, detail=builders.details, progress=builders.progresses)
def test_any_event_can_be_read_back_from_the_journal(
    make_store: MakeStore, job: Job, detail: Detail, progress: Progress
) -> None:
    events: list[Event] = [
        JobsSubmitted(1, (job,), frozenset({job.job_id})),
        JobChanged(2, replace(job, priority=job.priority + 1)),
        JobMoved(2, job.job_id, Move.RUN, progress),
    ]

    async def go() -> None:
        async with opened(make_store()) as store:
            await store.commit(Record(events, {job.job_id: detail}))
            rows = await store.journal(0, 10)
            assert [decode_event(row.kind, row.payload) for row in rows] == events
            assert decode_details(rows[0].payload).get(job.job_id, NO_DETAIL) == detail

    asyncio.run(go())


@pytest.mark.parametrize("many", [1, 100])
async def test_a_changed_job_is_loaded_as_it_is_now(make_store: MakeStore, many: int) -> None:
    jobs = tuple(a_job(f"j{number}") for number in range(many))
    async with opened(make_store()) as store:
        await store.commit(Record([JobsSubmitted(1, jobs)]))
        changed = replace(jobs[0], priority=777)
        await store.commit(Record([JobChanged(2, changed)]))
        found = await store.job(changed.job_id)
        assert found is not None
        assert found.job == changed
        assert (await reopened(store)).live[0][0] == changed
        rows = await store.journal(0, 10, changed.job_id)
        assert [row.kind for row in rows] == ["jobs_submitted", "job_changed"]


async def test_a_job_that_was_edited_has_its_new_name(make_store: MakeStore) -> None:
    job = a_job("a")
    async with opened(make_store()) as store:
        details = {job.job_id: Detail(name="old", argv=("x",))}
        await store.commit(Record([JobsSubmitted(1, (job,))], details))
        changed = JobChanged(2, job, "ada", "new", (("name", "old", "new"),))
        await store.commit(Record([changed, JobChanged(3, job)]))
        found = await store.job(job.job_id)
        assert found is not None
        assert found.detail == Detail(name="new", argv=("x",))
        rows = await store.journal(0, 10, job.job_id)
        assert decode_event(rows[1].kind, rows[1].payload) == changed
        assert [f.job.job_id for f in await store.jobs(JobQuery(name_contains="new"))] == ["a"]


async def test_a_job_that_is_over_cannot_be_changed(make_store: MakeStore) -> None:
    job = a_job("a")
    async with opened(make_store()) as store:
        ended = Progress(state=JobState.COMPLETED, ended_at=2)
        events: list[Event] = [JobsSubmitted(1, (job,)), JobMoved(2, job.job_id, Move.RUN, ended)]
        await store.commit(Record(events))
        with pytest.raises(InvariantBroken, match="over or unknown"):
            await store.commit(Record([JobChanged(3, replace(job, priority=1))]))


@ROUND_TRIP
@given(tenant=builders.tenants, queue=builders.queues, node=builders.nodes, usage=builders.usages)
def test_any_tenant_queue_node_and_usage_come_back_as_they_were(
    make_store: MakeStore, tenant: Tenant, queue: TenantQueue, node: Node, usage: GpuTimeUsage
) -> None:
    async def go() -> None:
        async with opened(make_store()) as store:
            events: list[Event] = [
                TenantSet(1, tenant),
                NodeSet(2, node),
                QueueSet(3, queue),
                UsageAdded(4, queue.tenant_id, queue.name, usage),
                QueueRemoved(5, tenant.tenant_id, "none of this name"),
            ]
            await store.commit(Record(events))
            loaded = await reopened(store)
            assert (loaded.tenants, loaded.nodes) == ((tenant,), (node,))
            assert loaded.queues == (queue,)
            assert loaded.usage == {(queue.tenant_id, queue.name): usage}
            rows = await store.journal(0, 10)
            assert [decode_event(row.kind, row.payload) for row in rows] == events

    asyncio.run(go())


@ROUND_TRIP
@given(row=builders.audit_rows, kind=builders.texts, name=builders.texts, body=st.binary())
def test_any_audit_row_and_document_come_back_as_they_were(
    make_store: MakeStore, row: AuditRow, kind: str, name: str, body: bytes
) -> None:
    async def go() -> None:
        async with opened(make_store()) as store:
            await store.commit(Record([], documents={(kind, name): body}, audit=[row]))
            await reopened(store)
            assert await store.documents(kind) == {name: body}
            assert await store.audit() == [replace(row, seq=1)]

    asyncio.run(go())


async def test_details_of_a_bulk_stay_with_their_jobs(store: Store) -> None:
    alice, bob = Detail(name="x", user="alice", argv=("true",)), Detail(name="y", user="bob")
    await store.commit(submission("a", "b", "c", a=alice, c=bob))
    found = await store.jobs(JobQuery())
    assert [each.detail for each in found] == [bob, NO_DETAIL, alice]


async def test_odd_characters_come_back_as_they_were(store: Store) -> None:
    odd = 'nul \0 quote " backslash \\ line \n emoji \U0001f680 separator \u2028'
    detail = Detail(name=odd, user=odd, argv=(odd,), env=((odd, odd),))
    await store.commit(submission("a", a=detail))
    stored = await store.job(JobId("a"))
    assert stored is not None
    assert stored.detail == detail
    (row,) = await store.journal(0, 1)
    assert decode_details(row.payload) == {"a": detail}


async def test_an_unknown_job_is_none(store: Store) -> None:
    assert await store.job(JobId("nobody")) is None


# -- tenants, nodes, environments --------------------------------------------------------------


async def test_a_tenant_set_again_is_replaced(store: Store) -> None:
    first, second = Tenant(TenantId("t")), Tenant(TenantId("t"), max_gpu_millis=2000)
    await store.commit(Record([TenantSet(1, first), TenantSet(2, second)]))
    await store.commit(Record([TenantSet(3, Tenant(TenantId("s")))]))
    assert (await reopened(store)).tenants == (Tenant(TenantId("s")), second)


async def test_a_node_set_again_is_replaced(store: Store) -> None:
    def node(paused: str | None) -> Node:
        return Node(NodeId("n"), (Gpu(0, "GPU-0", "A100", 81920, paused=paused),), 1000, 1024)

    await store.commit(Record([NodeSet(1, node(None))]))
    await store.commit(Record([NodeSet(2, node("repair"))]))
    assert (await reopened(store)).nodes == (node("repair"),)


async def test_an_environment_is_kept_under_its_id(store: Store) -> None:
    environment = {"PATH": "/bin", "ümlaut": "=\n'\"", "EMPTY": ""}
    await store.commit(Record([], environments={"e1": environment}))
    await reopened(store)
    assert await store.environment("e1") == environment


async def test_an_unknown_environment_is_empty(store: Store) -> None:
    assert await store.environment("nope") == {}


async def test_an_environment_may_be_given_again(store: Store) -> None:
    for _ in range(2):
        await store.commit(Record([], environments={"e1": {"A": "1"}}))
    assert await store.environment("e1") == {"A": "1"}


# -- queues, usage, documents, audit -----------------------------------------------------------

T1, T2 = TenantId("t1"), TenantId("t2")
DAY_MS = 86_400_000


async def test_queues_are_loaded_by_tenant_and_name(store: Store) -> None:
    slow, fast, other = TenantQueue(T1, "slow"), TenantQueue(T1, "fast", 7), TenantQueue(T2, "slow")
    await store.commit(Record([QueueSet(1, other), QueueSet(1, slow), QueueSet(1, fast)]))
    assert (await reopened(store)).queues == (fast, slow, other)


async def test_a_queue_set_again_is_replaced(store: Store) -> None:
    off = TenantQueue(T1, "q", enabled=False)
    await store.commit(Record([QueueSet(1, TenantQueue(T1, "q"))]))
    await store.commit(Record([QueueSet(2, off)]))
    assert (await reopened(store)).queues == (off,)


async def test_a_removed_queue_is_gone_and_the_others_stay(store: Store) -> None:
    queues = [TenantQueue(T1, "a"), TenantQueue(T1, "b"), TenantQueue(T2, "a")]
    await store.commit(Record([QueueSet(1, queue) for queue in queues]))
    await store.commit(Record([QueueRemoved(2, T1, "a")]))
    assert (await reopened(store)).queues == (queues[1], queues[2])


async def test_of_a_queue_set_and_removed_in_one_commit_the_last_word_counts(store: Store) -> None:
    kept = TenantQueue(T1, "kept", 3)
    await store.commit(
        Record(
            [
                QueueSet(1, TenantQueue(T1, "gone")),
                QueueRemoved(1, T1, "gone"),
                QueueSet(1, TenantQueue(T1, "kept")),
                QueueRemoved(1, T1, "kept"),
                QueueSet(1, kept),
            ]
        )
    )
    assert (await reopened(store)).queues == (kept,)


@pytest.fixture
async def used(store: Store) -> Store:
    """t1/default on days 0 and 2, t1/night and t2/default on day 2; in two commits."""
    events = [
        UsageAdded(5, T1, "default", GpuTimeUsage(10, completed=1)),
        UsageAdded(2 * DAY_MS, T1, "default", GpuTimeUsage(1000, 1, 2, 3)),
        UsageAdded(3 * DAY_MS - 1, T1, "default", GpuTimeUsage(1, 1, 1, 1)),
        UsageAdded(2 * DAY_MS, T2, "default", GpuTimeUsage(7)),
    ]
    await store.commit(Record(events))
    await store.commit(
        Record(
            [
                UsageAdded(2 * DAY_MS + 9, T1, "default", GpuTimeUsage(100)),
                UsageAdded(2 * DAY_MS, T1, "night", GpuTimeUsage(failed=1)),
            ]
        )
    )
    return store


async def test_usage_is_summed_by_day(used: Store) -> None:
    assert await used.usage(0) == [
        DailyUsage(0, T1, "default", GpuTimeUsage(10, completed=1)),
        DailyUsage(2, T1, "default", GpuTimeUsage(1101, 2, 3, 4)),
        DailyUsage(2, T1, "night", GpuTimeUsage(failed=1)),
        DailyUsage(2, T2, "default", GpuTimeUsage(7)),
    ]


async def test_usage_is_read_from_a_day_on_and_of_one_tenant(used: Store) -> None:
    assert [row.day for row in await used.usage(1)] == [2, 2, 2]
    assert await used.usage(1, T2) == [DailyUsage(2, T2, "default", GpuTimeUsage(7))]
    assert await used.usage(3) == []


async def test_usage_of_all_time_is_loaded(used: Store) -> None:
    assert (await reopened(used)).usage == {
        (T1, "default"): GpuTimeUsage(1111, 3, 3, 4),
        (T1, "night"): GpuTimeUsage(failed=1),
        (T2, "default"): GpuTimeUsage(7),
    }


async def test_settings_are_in_the_journal_as_they_were(store: Store) -> None:
    event = SettingsSet(7, "1.0", {"a.b": "fifo", "a.c": 2, "a.d": 0.5, "a.e": None, "a.f": True})
    await store.commit(Record([event]))
    (row,) = await store.journal(0, 10)
    assert (row.kind, row.at, row.job_id) == ("settings_set", 7, None)
    assert decode_event(row.kind, row.payload) == event


async def test_a_learnt_mix_is_in_the_journal_as_it_was(store: Store) -> None:
    event = MixSet(
        7,
        RequestProfile(
            ((RequestShape(500, 4_000, ("A100",)), 6_000), (RequestShape(1_000), 4_000))
        ),
    )
    await store.commit(Record([event]))
    (row,) = await store.journal(0, 10)
    assert decode_event(row.kind, row.payload) == event


async def test_a_step_of_the_clock_moves_the_jobs_it_names(store: Store) -> None:
    await store.commit(submission("a", "b", "c"))
    await store.commit(Record([started("a"), started("b")]))
    moved = shifted(started("a").progress, 5_000)
    event = ClockStepped(9_000, 5_000, ((JobId("a"), moved),))
    await store.commit(Record([event]))
    live = (await reopened(store)).live
    found = {job.job_id: progress for job, progress in live}
    assert found == {"a": moved, "b": started("b").progress, "c": PENDING}
    assert {job.submitted_at for job, _ in live} == {5_010}  # as old as before
    assert moved.started_at == 5_020
    row = (await store.journal(0, 10))[-1]
    assert (row.kind, row.at, row.job_id) == ("clock_stepped", 9_000, None)
    assert decode_event(row.kind, row.payload) == event


async def test_a_step_of_the_clock_moves_no_job_that_is_over(store: Store) -> None:
    await store.commit(submission("a"))
    await store.commit(Record([completed("a")]))
    event = ClockStepped(9_000, 5_000, ((JobId("a"), started("a").progress),))
    with pytest.raises(InvariantBroken):
        await store.commit(Record([event]))


async def test_documents_are_read_by_kind(store: Store) -> None:
    await store.commit(
        Record([], documents={("key", "a"): b"1", ("key", "b"): b"\0\xff", ("note", "a"): b""})
    )
    assert await store.documents("key") == {"a": b"1", "b": b"\0\xff"}
    assert await store.documents("note") == {"a": b""}
    assert await store.documents("nothing") == {}


async def test_a_document_is_replaced_or_deleted(store: Store) -> None:
    await store.commit(Record([], documents={("key", name): b"old" for name in "abc"}))
    await store.commit(
        Record([], documents={("key", "a"): b"new", ("key", "b"): None, ("key", "zz"): None})
    )
    await reopened(store)
    assert await store.documents("key") == {"a": b"new", "c": b"old"}


async def test_audit_rows_are_read_newest_first_in_pages(store: Store) -> None:
    await store.commit(Record([], audit=[audited(1), audited(2)]))
    await reopened(store)
    await store.commit(Record([], audit=[audited(3), audited(4)]))
    assert [(row.seq, row.at) for row in await store.audit()] == [(4, 4), (3, 3), (2, 2), (1, 1)]
    assert [row.seq for row in await store.audit(limit=2)] == [4, 3]
    assert [row.seq for row in await store.audit(before=3, limit=1)] == [2]
    assert await store.audit(before=1) == []
    assert (await store.audit(limit=1))[0] == replace(audited(4), seq=4)


async def test_audit_rows_of_one_tenant(store: Store) -> None:
    rows = [audited(1, "t1"), audited(2, "t2"), audited(3, None), audited(4, "t1")]
    await store.commit(Record([], audit=rows))
    assert [row.at for row in await store.audit(tenant_id=T1)] == [4, 1]
    assert [row.at for row in await store.audit(tenant_id=T1, before=4)] == [1]


async def test_a_commit_without_events_leaves_the_journal_as_it_is(store: Store) -> None:
    assert await store.commit(submission("a")) == 1
    record = Record([], documents={("key", "a"): b"1"}, audit=[audited(1)])
    assert await store.commit(record) == 1
    assert len(await store.journal(0, 10)) == 1


# -- lists -------------------------------------------------------------------------------------


@pytest.fixture
async def listed(store: Store) -> Store:
    """a: t1, completed · b: t2, running, alice · c: array, cancelled · d: t1, pending · e: array"""
    jobs = [
        a_job("a"),
        a_job("b", tenant="t2"),
        a_job("c", array=Array("arr", 0)),
        a_job("d"),
        replace(a_job("e", array=Array("arr", 1)), options=Options(user='carol "c"')),
    ]
    details = {
        JobId("a"): Detail(name="train-small", user="bob"),
        JobId("b"): Detail(name="train-big", user="alice"),
        JobId("d"): Detail(name="100%_done", user="alice"),
    }
    await store.commit(Record([submitted(*jobs)], details))
    await store.commit(Record([started("a"), started("b")]))
    await store.commit(Record([completed("a"), running("b"), cancelled("c")]))
    return store


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param(JobQuery(), "edcba", id="all, newest first"),
        pytest.param(JobQuery(states=(JobState.PENDING,)), "ed", id="one state"),
        pytest.param(
            JobQuery(states=(JobState.COMPLETED, JobState.PENDING, JobState.CANCELLED)),
            "edca",
            id="several states",
        ),
        pytest.param(JobQuery(states=(JobState.FAILED,)), "", id="a state nobody is in"),
        pytest.param(JobQuery(tenant_id=TenantId("t2")), "b", id="tenant"),
        pytest.param(
            JobQuery(tenant_ids=(TenantId("t2"), TenantId("t1"), TenantId("zz"))),
            "edcba",
            id="one of several tenants",
        ),
        pytest.param(JobQuery(tenant_ids=(TenantId("t2"),)), "b", id="one of one tenant"),
        pytest.param(JobQuery(tenant_ids=()), "", id="one of no tenant"),
        pytest.param(JobQuery(name_contains="train"), "ba", id="name"),
        pytest.param(JobQuery(name_contains="%_"), "d", id="a name is no pattern"),
        pytest.param(JobQuery(user="alice"), "db", id="user"),
        pytest.param(JobQuery(user='carol "c"'), "e", id="the user of a job without a detail"),
        pytest.param(JobQuery(own_only=(T1,), own_user="alice"), "db", id="own of one tenant"),
        pytest.param(JobQuery(own_only=(T1,), own_user='carol "c"'), "eb", id="own, no detail"),
        pytest.param(JobQuery(own_only=(T1, TenantId("t2"))), "", id="nobody's own"),
        pytest.param(
            JobQuery(job_ids=(JobId("a"), JobId("e"), JobId("zz"), JobId("a"))), "ea", id="ids"
        ),
        pytest.param(JobQuery(array_id="arr"), "ec", id="array"),
        pytest.param(JobQuery(before=3), "ba", id="before"),
        pytest.param(JobQuery(before=99, limit=2), "ed", id="before the end"),
        pytest.param(JobQuery(before=1), "", id="before the first"),
        pytest.param(JobQuery(limit=2), "ed", id="limit"),
        pytest.param(JobQuery(limit=0), "", id="limit of none"),
        pytest.param(
            JobQuery(states=(JobState.PENDING, JobState.RUNNING), limit=2), "ed", id="states, limit"
        ),
        pytest.param(
            JobQuery(states=(JobState.PENDING, JobState.RUNNING), before=4),
            "b",
            id="states, before",
        ),
        pytest.param(
            JobQuery(user="alice", tenant_id=TenantId("t1"), states=(JobState.PENDING,)),
            "d",
            id="all conditions hold",
        ),
        pytest.param(JobQuery(job_ids=(JobId("a"), JobId("b")), user="bob"), "a", id="ids, user"),
        pytest.param(JobQuery(job_ids=(JobId("a"), JobId("b")), before=2), "a", id="ids, before"),
    ],
)
async def test_a_list_has_the_jobs_that_match(
    listed: Store, query: JobQuery, expected: str
) -> None:
    assert "".join(ids(await listed.jobs(query))) == expected


# -- arrays as one row -------------------------------------------------------------------------


def elements(array_id: str, count: int) -> list[Job]:
    return [a_job(f"{array_id}.{n}", array=Array(array_id, n)) for n in range(1, count + 1)]


def rows(found: list[FoldedJob]) -> list[tuple[str, dict[str, int]]]:
    return [
        (row.job.job.job_id, {str(state): count for state, count in row.states.items()})
        for row in found
    ]


@pytest.fixture
async def folded(store: Store) -> Store:
    """first · array 2 of 4: 1 completed, 2 running, 3 and 4 wait · mid · array 3, all cancelled ·
    a rerun of 2.1 · last"""
    await store.commit(Record([submitted(a_job("first"))]))
    await store.commit(Record([submitted(*elements("2", 4))]))
    await store.commit(Record([submitted(a_job("mid", tenant="t2"))]))
    await store.commit(Record([submitted(*elements("3", 3))]))
    await store.commit(Record([submitted(a_job("rerun", array=Array("2", 1)))]))
    await store.commit(Record([submitted(a_job("last"))]))
    await store.commit(Record([started("2.1"), started("2.2", at=21), running("2.1")]))
    await store.commit(Record([completed("2.1"), running("2.2", at=31)]))
    await store.commit(Record([cancelled(f"3.{n}", at=20 + n) for n in (1, 2, 3)]))
    return store


async def test_an_array_is_one_row_with_its_progress(folded: Store) -> None:
    found = await folded.folded(JobQuery())
    assert rows(found) == [
        ("last", {}),
        ("rerun", {}),
        ("3.1", {"cancelled": 3}),
        ("mid", {}),
        ("2.3", {"completed": 1, "running": 1, "pending": 2}),
        ("first", {}),
    ]
    over, goes_on = found[2], found[4]
    assert (over.first_index, over.last_index, over.ended_at) == (1, 3, 23)
    assert (goes_on.first_index, goes_on.last_index, goes_on.started_at) == (1, 4, 30)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param(JobQuery(states=(JobState.RUNNING,)), ["2.3"], id="one of it runs"),
        pytest.param(
            JobQuery(states=(JobState.PENDING, JobState.RUNNING, JobState.COMPLETED)),
            ["last", "rerun", "mid", "2.3", "first"],
            id="in several states, still one row",
        ),
        pytest.param(JobQuery(states=(JobState.FAILED,)), [], id="a state nobody is in"),
        pytest.param(JobQuery(tenant_id=TenantId("t2")), ["mid"], id="tenant"),
        pytest.param(JobQuery(tenant_ids=()), [], id="no tenant"),
        pytest.param(JobQuery(array_id="2"), ["rerun", "2.3"], id="array"),
        pytest.param(JobQuery(limit=3), ["last", "rerun", "3.1"], id="limit"),
        pytest.param(JobQuery(limit=0), [], id="limit of none"),
    ],
)
async def test_a_folded_list_has_what_matches(
    folded: Store, query: JobQuery, expected: list[str]
) -> None:
    assert [row.job.job.job_id for row in await folded.folded(query)] == expected


@pytest.mark.parametrize("states", [(), (JobState.PENDING, JobState.RUNNING, JobState.CANCELLED)])
@pytest.mark.parametrize("limit", [1, 2])
async def test_folded_pages_put_together_are_the_whole_list(
    folded: Store, states: tuple[JobState, ...], limit: int
) -> None:
    whole = await folded.folded(JobQuery(states=states))
    pages: list[FoldedJob] = []
    before = None
    while page := await folded.folded(JobQuery(states=states, before=before, limit=limit)):
        pages += page
        before = page[-1].number
    assert pages == whole


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(JobQuery(), id="all"),
        pytest.param(JobQuery(before=3, limit=1), id="whatever page"),
        pytest.param(JobQuery(states=(JobState.RUNNING,)), id="state"),
        pytest.param(JobQuery(states=(JobState.PENDING, JobState.CANCELLED)), id="states"),
        pytest.param(JobQuery(states=(JobState.FAILED,)), id="a state nobody is in"),
        pytest.param(JobQuery(tenant_id=TenantId("t2")), id="tenant"),
        pytest.param(JobQuery(tenant_ids=()), id="no tenant"),
        pytest.param(JobQuery(tenant_ids=(TenantId("t1"),)), id="of these tenants"),
        pytest.param(JobQuery(array_id="2"), id="array"),
        pytest.param(JobQuery(name_contains="nobody"), id="name"),
        pytest.param(JobQuery(user="ada"), id="user"),
        pytest.param(JobQuery(job_ids=(JobId("mid"), JobId("2.1"))), id="ids"),
        pytest.param(JobQuery(own_only=(TenantId("t1"),), own_user="ada"), id="own jobs only"),
    ],
)
async def test_a_count_is_that_of_all_pages(folded: Store, query: JobQuery) -> None:
    mine = replace(a_job("mine"), options=Options(user="ada"))
    await folded.commit(Record([submitted(mine)], {mine.job_id: Detail(name="n", user="ada")}))
    everywhere = replace(query, before=None, limit=1000)
    assert await folded.count(query) == len(await folded.jobs(everywhere))
    assert await folded.count(query, fold=True) == len(await folded.folded(everywhere))


async def test_a_page_steps_over_the_elements_of_arrays(store: Store) -> None:
    """However many they are: a row for each of 3,000 would fill the page."""
    await store.commit(Record([submitted(a_job("old"))]))
    await store.commit(Record([submitted(*elements("2", 3000))]))
    await store.commit(Record([cancelled(f"2.{n}") for n in range(1, 3001, 2)]))
    found = await store.folded(JobQuery(limit=2))
    assert rows(found) == [("2.2", {"cancelled": 1500, "pending": 1500}), ("old", {})]


async def test_pages_put_together_are_the_whole_list(store: Store) -> None:
    await store.commit(submission(*(f"j{n}" for n in range(23))))
    pages: list[str] = []
    before = None
    while page := await store.jobs(JobQuery(before=before, limit=5)):
        assert len(page) <= 5
        pages += ids(page)
        before = page[-1].number
    assert pages == [f"j{n}" for n in reversed(range(23))]


async def test_known_ids_are_those_of_jobs_over_or_not(listed: Store) -> None:
    asked = [JobId(each) for each in ("a", "c", "d", "zz", "A")]
    assert await listed.known(asked) == {"a", "c", "d"}
    assert await listed.known([]) == set()


async def test_what_was_run_again_is_found_with_its_newest_rerun(store: Store) -> None:
    text = '"rerun_of":"a"'  # in a value it is no name
    old = [a_job(name) for name in ("a", "b", "c")]
    await store.commit(Record([JobsSubmitted(0, tuple(old))], {JobId("c"): Detail(argv=(text,))}))
    again = [a_job("d"), a_job("e.1", array=Array("e", 1)), a_job("f")]
    names = {"d": "a", "e.1": "a", "f": "b"}
    details = {JobId(new): Detail(rerun_of=JobId(was)) for new, was in names.items()}
    await store.commit(Record([JobsSubmitted(1, tuple(again))], details))
    asked = [JobId(name) for name in ("a", "b", "c", "nobody")]
    assert await store.reruns(asked) == {"a": "e", "b": "f"}
    assert await store.reruns([]) == {}


async def test_known_takes_many_ids_at_once(store: Store) -> None:
    await store.commit(submission(*(f"j{n}" for n in range(0, 9000, 2))))
    asked = [JobId(f"j{n}") for n in range(9000)]
    assert await store.known(asked) == {f"j{n}" for n in range(0, 9000, 2)}


@pytest.mark.parametrize("count", [1, 2, 3, 2047, 2048, 5001])
async def test_a_bulk_of_any_size_is_stored_whole(store: Store, count: int) -> None:
    wanted = [f"j{n}" for n in range(count)]
    await store.commit(submission(*wanted))
    await store.commit(Record([started(job_id) for job_id in wanted]))
    found = await store.jobs(JobQuery(limit=count + 1))
    assert ids(found) == wanted[::-1]
    assert [each.number for each in found] == list(range(count, 0, -1))
    assert {each.progress for each in found} == {started("x").progress}


# -- whole or nothing --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "error"),
    [
        pytest.param(submission("new", "old"), Duplicate, id="a job that is there"),
        pytest.param(submission("new", "new"), Duplicate, id="a job twice"),
        pytest.param(
            Record([submitted(a_job("new")), started("nobody")]), InvariantBroken, id="unknown job"
        ),
        pytest.param(
            Record([submitted(a_job("new")), started("ended")]), InvariantBroken, id="job is over"
        ),
        pytest.param(
            Record([submitted(a_job("new")), TimePassed(9)]), InvariantBroken, id="time passed"
        ),
    ],
)
async def test_of_a_refused_commit_nothing_is_recorded(
    store: Store, record: Record, error: type[Exception]
) -> None:
    await store.commit(submission("old", "ended"))
    await store.commit(Record([cancelled("ended")]))
    before = await everything(store)
    with pytest.raises(error):
        await store.commit(
            Record(
                [TenantSet(1, Tenant(T1)), QueueSet(1, TenantQueue(T1, "q")), *record.events],
                environments={"e": {"A": "1"}},
                documents={("key", "a"): b"1"},
                audit=[audited(1)],
            )
        )
    assert await everything(store) == before
    assert await store.environment("e") == {}


async def test_after_a_refused_commit_the_next_one_has_the_next_number(store: Store) -> None:
    await store.commit(submission("a"))
    with pytest.raises(Duplicate, match="job a already exists"):
        await store.commit(submission("b", "a"))
    assert await store.commit(submission("b")) == 2
    assert [each.number for each in await store.jobs(JobQuery())] == [2, 1]


async def test_a_commit_of_nothing_changes_nothing(store: Store) -> None:
    last = await store.commit(submission("a"))
    assert await store.commit(Record([])) == last


async def test_a_job_may_be_submitted_and_moved_in_one_commit(store: Store) -> None:
    await store.commit(Record([submitted(a_job("a")), started("a"), running("a")]))
    stored = await store.job(JobId("a"))
    assert stored is not None
    assert stored.progress == running("a").progress


async def test_commits_at_the_same_time_are_all_recorded(store: Store) -> None:
    seqs = await asyncio.gather(*(store.commit(submission(f"j{n}")) for n in range(20)))
    assert sorted(seqs) == list(range(1, 21))
    assert len(await store.jobs(JobQuery())) == 20


# -- the journal -------------------------------------------------------------------------------


async def test_the_journal_has_every_event_in_order(listed: Store) -> None:
    await listed.commit(Record([TenantSet(50, Tenant(TenantId("t")))]))
    rows = await listed.journal(0, 100)
    assert [(row.seq, row.at, row.kind, row.job_id) for row in rows] == [
        (1, 10, "jobs_submitted", None),
        (2, 20, "job_moved", "a"),
        (3, 20, "job_moved", "b"),
        (4, 40, "job_moved", "a"),
        (5, 30, "job_moved", "b"),
        (6, 25, "job_moved", "c"),
        (7, 50, "tenant_set", None),
    ]


async def test_the_journal_is_read_in_pages(listed: Store) -> None:
    assert [row.seq for row in await listed.journal(2, 3)] == [3, 4, 5]
    assert await listed.journal(6, 3) == []


async def test_a_jobs_journal_begins_with_its_own_part_of_the_bulk(listed: Store) -> None:
    rows = await listed.journal(0, 100, JobId("b"))
    assert [(row.seq, row.kind, row.job_id) for row in rows] == [
        (1, "jobs_submitted", "b"),
        (3, "job_moved", "b"),
        (5, "job_moved", "b"),
    ]
    event = decode_event(rows[0].kind, rows[0].payload)
    assert event == submitted(a_job("b", tenant="t2"))
    assert decode_details(rows[0].payload) == {"b": Detail(name="train-big", user="alice")}


async def test_a_jobs_journal_says_that_it_began_on_hold(store: Store) -> None:
    await store.commit(Record([submitted(a_job("a"), a_job("b"), held=("a", "b"))]))
    (row,) = await store.journal(0, 10, JobId("b"))
    assert decode_event(row.kind, row.payload) == submitted(a_job("b"), held=("b",))


async def test_a_jobs_journal_has_a_submission_on_its_own_only_once(store: Store) -> None:
    await store.commit(submission("a"))
    rows = await store.journal(0, 10, JobId("a"))
    assert [(row.seq, row.job_id) for row in rows] == [(1, "a")]


async def test_a_jobs_journal_is_read_in_pages(listed: Store) -> None:
    job_id = JobId("b")
    assert [row.seq for row in await listed.journal(0, 1, job_id)] == [1]
    assert [row.seq for row in await listed.journal(1, 1, job_id)] == [3]
    assert [row.seq for row in await listed.journal(3, 9, job_id)] == [5]


async def test_the_journal_of_an_unknown_job_is_empty(listed: Store) -> None:
    assert await listed.journal(0, 10, JobId("nobody")) == []


# -- decisions ---------------------------------------------------------------------------------

COMMAND, CYCLE = DecisionId(7, Decider.COMMAND), DecisionId(8, Decider.CYCLE)


async def test_events_keep_the_decision_that_they_are_of(store: Store) -> None:
    many = [a_job(f"j{n}") for n in range(100)]
    await store.commit(Record([submitted(a_job("before"))]))
    await store.commit(Record([submitted(*many)], decisions=[COMMAND]))
    moves = [started(f"j{n}") for n in range(80)]
    await store.commit(Record(moves, decisions=[CYCLE] * 80))
    rows = await store.journal(0, 1000)
    assert [row.decision for row in rows] == [None, COMMAND, *[CYCLE] * 80]
    of_one = await store.journal(0, 10, JobId("j3"))
    assert [row.decision for row in of_one] == [COMMAND, CYCLE]


async def test_the_last_decision_is_there_after_a_start(store: Store) -> None:
    assert (await reopened(store)).last_decision == 0
    await store.commit(Record([submitted(a_job("before"))]))
    assert (await reopened(store)).last_decision == 0
    await store.commit(Record([submitted(a_job("a"))], decisions=[COMMAND]))
    await store.commit(Record([], documents={("key", "ci"): b""}, audit=[audited(1)]))
    assert (await reopened(store)).last_decision == 7


async def test_decisions_that_are_not_of_each_event_are_refused_whole(store: Store) -> None:
    before = await everything(store)
    events = [submitted(a_job("a")), submitted(a_job("b"))]
    with pytest.raises(InvariantBroken, match="1 decisions of 2 events"):
        await store.commit(Record(events, decisions=[COMMAND]))
    assert await everything(store) == before


async def test_an_audit_row_keeps_its_decision_and_request(store: Store) -> None:
    named = replace(audited(1), decision=7, request_id="r-1")
    await store.commit(Record([], audit=[named, audited(2)]))
    rows = await store.audit()
    assert [(row.decision, row.request_id) for row in rows] == [(None, None), (7, "r-1")]
