"""Which reads are cached, for whom, and until when."""

import asyncio
from typing import Any

import pytest

from tgpu.gateway.answer import Answer, Headers
from tgpu.gateway.breaker import Away
from tgpu.gateway.headers import caller_of
from tgpu.gateway.reads import KeptAnswers, Reads, is_cached, key_of
from tgpu.gateway.upstream import UpstreamAway


def a_request(path: bytes, method: str = "GET", **headers: bytes) -> dict[str, Any]:
    return {
        "method": method,
        "raw_path": path,
        "query_string": b"",
        "client": ("192.0.2.1", 1),
        "headers": [(name.replace("_", "-").encode(), value) for name, value in headers.items()],
    }


class Service:
    """Answers when it is let, with the number of the question."""

    def __init__(self) -> None:
        self.asked = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails = False
        self.status = 200

    async def fetch(self, target: bytes, headers: Headers) -> Answer:
        self.asked += 1
        number = self.asked
        await self.gate.wait()
        if self.fails:
            raise UpstreamAway("away")
        return Answer(self.status, [], b"%d" % number)


class NoRedis:
    async def generation(self) -> int:
        raise Away

    async def bump(self) -> None:
        raise Away


@pytest.fixture
def service() -> Service:
    return Service()


def reads_of(service: Service, shared: Any = None, seconds: float = 60.0) -> Reads:
    return Reads(service, shared, seconds)  # type: ignore[arg-type]  # all it needs


@pytest.mark.parametrize(
    "path",
    [
        b"/api/v1/jobs",
        b"/api/v1/jobs/17",
        b"/api/v1/jobs/scheduler/info",
        b"/api/v1/gpus",
        b"/api/v1/cluster/status",
        b"/api/v1/tenants/red/usage",
        b"/api/v1/queues/quota/red",
        b"/stats",
    ],
)
def test_reads_of_the_state_are_cached(path: bytes) -> None:
    assert is_cached(a_request(path))


@pytest.mark.parametrize(
    "path",
    [
        b"/api/v1/jobs/17/logs",
        b"/api/v1/jobs/17/why",
        b"/api/v1/jobs/17/wait",
        b"/api/v1/jobs/17/events",
        b"/api/v1/events",
        b"/api/v1/journal",
        b"/api/v1/audit",
        b"/api/v1/keys",
        b"/api/v1/health",
        b"/api/v1/jobs/..",
        b"/api/v1/jobs/%2e%2e",
        b"/api/v1/jobs/17/",
        b"/metrics",
    ],
)
def test_what_shows_this_moment_is_not_cached(path: bytes) -> None:
    assert not is_cached(a_request(path))


def test_neither_changes_nor_those_who_want_none_of_it_are_answered_from_the_cache() -> None:
    assert not is_cached(a_request(b"/api/v1/jobs", "POST"))
    assert not is_cached(a_request(b"/api/v1/jobs", cache_control=b"no-cache"))
    assert not is_cached(a_request(b"/api/v1/jobs", content_length=b"2"))


def test_what_a_caller_shows_is_part_of_the_key() -> None:
    requests = [
        a_request(b"/x"),
        a_request(b"/x", authorization=b"Bearer a"),
        a_request(b"/x", x_api_key=b"Bearer a"),
        a_request(b"/x", host=b"a"),
        a_request(b"/x", accept=b"a"),
    ]
    keys = {key_of(b"/x", request, caller_of(request)) for request in requests}
    assert len(keys) == len(requests)


async def test_the_same_question_is_asked_once(service: Service) -> None:
    reads = reads_of(service)
    first, second = await reads.get(b"/x", [], "k"), await reads.get(b"/x", [], "k")
    assert (first.is_hit, second.is_hit) == (False, True)
    assert (service.asked, second.answer) == (1, first.answer)


async def test_those_who_ask_together_share_one_question(service: Service) -> None:
    reads = reads_of(service)
    service.gate.clear()
    asking = [asyncio.create_task(reads.get(b"/x", [], "k")) for _ in range(5)]
    await asyncio.sleep(0)
    service.gate.set()
    assert {read.answer.body for read in await asyncio.gather(*asking)} == {b"1"}


async def test_one_who_leaves_does_not_take_the_answer_from_the_others(service: Service) -> None:
    reads = reads_of(service)
    service.gate.clear()
    leaves, stays = (asyncio.create_task(reads.get(b"/x", [], "k")) for _ in range(2))
    await asyncio.sleep(0)
    leaves.cancel()
    service.gate.set()
    assert (await stays).answer.body == b"1"


async def test_after_a_change_no_answer_from_before_is_used(service: Service) -> None:
    reads = reads_of(service)
    service.gate.clear()
    before = asyncio.create_task(reads.get(b"/x", [], "k"))
    await asyncio.sleep(0)
    await reads.changed()
    after = asyncio.create_task(reads.get(b"/x", [], "k"))
    await asyncio.sleep(0)
    service.gate.set()
    assert [(await each).answer.body for each in (before, after)] == [b"1", b"2"]
    assert (await reads.get(b"/x", [], "k")).answer.body == b"2"


async def test_while_redis_is_away_every_question_is_asked(service: Service) -> None:
    reads = reads_of(service, NoRedis())
    assert [(await reads.get(b"/x", [], "k")).is_hit for _ in range(3)] == [False] * 3
    assert service.asked == 3


async def test_refusals_are_not_kept(service: Service) -> None:
    reads = reads_of(service)
    service.status = 404
    await reads.get(b"/x", [], "k")
    await reads.get(b"/x", [], "k")
    assert service.asked == 2


async def test_a_service_that_is_away_is_told_to_all_who_asked_and_asked_again_later(
    service: Service,
) -> None:
    reads = reads_of(service)
    service.fails = True
    with pytest.raises(UpstreamAway):
        await reads.get(b"/x", [], "k")
    service.fails = False
    assert (await reads.get(b"/x", [], "k")).answer.status == 200


def test_kept_answers_expire_and_make_room() -> None:
    now = 0.0
    kept = KeptAnswers(3_000, lambda: now)
    for key in ("a", "b"):
        kept.put(key, 1, Answer(200, [], b""), 1.0)
    kept.get("a", 1)
    kept.put("c", 1, Answer(200, [], b"x" * 500), 1.0)  # too much for all three
    assert [kept.get(key, 1) is not None for key in ("a", "b", "c")] == [True, False, True]
    assert kept.get("a", 2) is None
    now = 1.0
    assert kept.get("a", 1) is None
