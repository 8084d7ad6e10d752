"""Every call as it goes over the wire, in both colours of client."""

import contextlib
import inspect
import json
import re

import httpx
import pytest

from tgpu.api.rest.app import make_app
from tgpu.client import calls
from tgpu.client.aio import AsyncClient
from tgpu.client.call import Call
from tgpu.client.errors import NotFound
from tgpu.client.http import Client
from tgpu.wire.keys_v1 import KeyCreate
from tgpu.wire.reservations_v1 import ReservationCreate
from tgpu.wire.root_v1 import PlainJobRequest
from tgpu.wire.selection_v1 import SelectionRequest
from tgpu.wire.tenants_v1 import (
    QueueCreate,
    QueuePatch,
    QuotaPatch,
    TenantCreate,
    TenantPatch,
)
from tgpu.wire.user_limits_v1 import UserLimitsPatch
from tgpu.wire.v1 import SubmitRequest

PLAIN = PlainJobRequest(
    job_id="n1", tenant_id="t1", gpu_type="A100", gpus=2, priority=5, submitted_at=0
)
EXAMPLES: list[Call[object]] = [
    calls.health(),
    calls.cluster_status(),
    calls.cluster_metrics(),
    calls.scheduler_info(),
    calls.trigger("t1"),
    calls.submit(SubmitRequest(command=["x"])),
    calls.list_jobs(10, None),
    calls.get_job("7"),
    calls.select(SelectionRequest(action="cancel", jobs=["7"])),
    calls.get_array("7"),
    calls.wait_array("7", 5),
    calls.cancel_job("7"),
    calls.hold_job("7"),
    calls.rerank_job("7", 900),
    calls.release_job("7"),
    calls.complete_job("7"),
    calls.pause_job("7"),
    calls.resume_job("7"),
    calls.checkpoint_job("7"),
    calls.preemptions("t", 10),
    calls.budgets("t"),
    calls.share("t"),
    calls.size("org/m-7b"),
    calls.jobs_file(),
    calls.list_notices(),
    calls.try_notice("ops"),
    calls.rerun_job("7"),
    calls.why("7"),
    calls.receipt("7"),
    calls.wait_job("7", 5),
    calls.read_log("7", "stdout"),
    calls.job_events("7", 0, 10),
    calls.events(None, None, None, False),
    calls.journal(0, True),
    calls.estimate(SubmitRequest()),
    calls.accuracy(7, "t"),
    calls.gpus(),
    calls.pause_gpu(0, "hot"),
    calls.resume_gpu(0),
    calls.pause_gpu("b/3", "fan"),
    calls.resume_gpu("b/3"),
    calls.adopt(4711, "default", "default", ""),
    calls.nodes(),
    calls.get_node("box"),
    calls.forget_node("box"),
    calls.list_reservations("t"),
    calls.reserve(ReservationCreate(gpus=4, minutes=120)),
    calls.get_reservation("r-1"),
    calls.cancel_reservation("r-1"),
    calls.list_tenants(),
    calls.create_tenant(TenantCreate(name="t")),
    calls.get_tenant("t"),
    calls.change_tenant("t", TenantPatch(max_gpus=None)),
    calls.deactivate_tenant("t"),
    calls.tenant_usage("t", 30),
    calls.list_queues("t"),
    calls.create_queue(QueueCreate(name="q")),
    calls.get_queue("t:q"),
    calls.change_queue("t:q", QueuePatch(enabled=False)),
    calls.remove_queue("t:q"),
    calls.get_quota("t"),
    calls.change_quota("t", QuotaPatch(gpu_quota=4)),
    calls.sync_quota("t"),
    calls.get_users("t"),
    calls.change_users("t", UserLimitsPatch(users={"ada": None})),
    calls.whoami(),
    calls.list_keys(),
    calls.create_key(KeyCreate(name="ci")),
    calls.revoke_key("k1"),
    calls.audit("t", 10, None),
    calls.submit_plain(PLAIN),
    calls.submit_batch([PLAIN]),
    calls.ingest(b"", "ndjson"),
    calls.plain_job("n1"),
    calls.complete_plain("n1"),
    calls.tick(5),
    calls.stats(),
]
# Reading a probe, the metrics or a page is no business of this client.
NOT_CALLED = {("GET", "/healthz")}


def operations() -> list[tuple[str, str]]:
    paths = make_app(data_dir=None).openapi()["paths"]
    return [(method.upper(), path) for path, item in paths.items() for method in item]


@pytest.mark.parametrize(("method", "path"), operations(), ids=str)
def test_every_operation_of_the_service_has_a_call(method, path):
    if (method, path) in NOT_CALLED:
        return
    pattern = re.compile(re.sub(r"\{\w+\}", "[^/]+", path))
    assert any(c.method == method and pattern.fullmatch(c.path) for c in EXAMPLES), (
        f"add {method} {path} to client/calls.py, http.py and aio.py"
    )


def public(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(value)
        for name, value in vars(kind).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }


def test_both_colours_have_the_same_methods_with_the_same_parameters():
    sync, aio = public(Client), public(AsyncClient)
    assert sync.keys() == aio.keys()
    assert {name: str(s.parameters) for name, s in sync.items()} == {
        name: str(s.parameters) for name, s in aio.items()
    }


def test_every_call_is_a_method_of_the_client():
    described = {
        name
        for name, value in vars(calls).items()
        if inspect.isfunction(value)
        and value.__module__ == calls.__name__
        and not name.startswith("_")
    }
    assert described <= public(Client).keys()


def test_a_change_sends_null_where_a_limit_is_lifted_and_nothing_where_it_stays():
    call = calls.change_tenant("t", TenantPatch(max_gpus=None, active=True))
    assert json.loads(call.body or b"") == {"max_gpus": None, "active": True}


def test_a_submission_sends_no_defaults():
    call = calls.submit(SubmitRequest(command=["x"], gpu_count=1, name=""))
    assert json.loads(call.body or b"") == {"command": ["x"]}


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_that_would_change_the_path_are_never_sent(name):
    with pytest.raises(NotFound) as caught:
        calls.get_tenant(name)
    assert caught.value.code == "NOT_FOUND"


def test_ids_are_quoted_in_paths():
    assert calls.get_quota("a/b c").path == "/api/v1/queues/quota/a%2Fb%20c"


def test_a_batch_is_a_list_of_jobs():
    call = calls.submit_batch([PLAIN, PLAIN])
    assert [job["job_id"] for job in json.loads(call.body or b"")] == ["n1", "n1"]


async def test_both_colours_send_the_same():
    seen: list[tuple[str, str, bytes, str | None]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        kind = request.headers.get("content-type")
        seen.append((request.method, str(request.url), request.content, kind))
        return httpx.Response(200, json={"nonsense": 1})

    transport = httpx.MockTransport(answer)
    client = Client("http://127.0.0.1:1", transport=transport)
    aio = AsyncClient("http://127.0.0.1:1", transport=transport)
    with client:
        for call in EXAMPLES:
            with pytest.raises(Exception, match="use this version") if _reads(call) else _fine():
                client.send(call)
    sync_seen, seen = seen, []
    async with aio:
        for call in EXAMPLES:
            with pytest.raises(Exception, match="use this version") if _reads(call) else _fine():
                await aio.send(call)
    assert sync_seen == seen
    assert len(seen) == len(EXAMPLES)


def _reads(call: Call[object]) -> bool:
    return call.read.__name__ != "no_content"


def _fine():
    return contextlib.nullcontext()
