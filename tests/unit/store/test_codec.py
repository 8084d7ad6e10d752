import json
from dataclasses import replace

from tests.contract.store.builders import a_job, started
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import NO_DETAIL, NO_OPTIONS, Options, Request, Where
from tgpu.core.model.lifecycle import PENDING, PENDING_HELD, Progress
from tgpu.core.model.node import Gpu, GpuName, Node
from tgpu.core.model.tenant import Tenant, Tier
from tgpu.store import codec


def test_facts_leave_out_what_is_default() -> None:
    assert json.loads(codec.facts_text(a_job("a"))) == {
        "priority": 500,
        "request": {"gpu_millis": 1000, "gpu_type": "A100"},
    }


def test_progress_always_names_the_state() -> None:
    assert codec.progress_text(PENDING) == '{"state":"pending"}'
    assert codec.progress_text(PENDING_HELD) == '{"state":"pending","held":true}'
    assert codec.progress_text(started("a").progress).startswith('{"state":"scheduled","attempt":1')


def test_a_node_without_and_with_gpus_comes_back() -> None:
    bare = Node(NodeId('"gpus":[]'), (), 1, 2)
    full = Node(NodeId("n"), (Gpu(0, "u", "A100", 1), Gpu(1, "v", "A100", 1, 3)), 1, 2, True)
    reporting = Node(NodeId("b"), (Gpu(0, "u", "A100", 1),), 1, 2, engine="")
    for node in (bare, full, reporting):
        assert codec.decode_node(codec.node_text(node)) == node


def test_a_node_of_an_older_version_runs_jobs_through_the_local_engine() -> None:
    found = codec.decode_node('{"node_id":"local","gpus":[],"cpu_millis":1,"mem_mib":2}')
    assert found == Node(NodeId("local"), (), 1, 2)
    assert found.engine == "local"


def test_gpus_that_a_job_names_come_back_with_and_without_nodes() -> None:
    where = Where(gpus=(0, GpuName(NodeId("b"), 1)), not_gpus=(GpuName(NodeId("c"), 2),))
    job = replace(a_job("a"), request=Request(1000, where=where))
    text = codec.facts_text(job)
    assert json.loads(text)["request"]["where"] == {"gpus": [0, ["b", 1]], "not_gpus": [["c", 2]]}
    found = codec.SharedValues().job(JobId("a"), "t", 1, text)
    assert found.request.where == where
    assert isinstance(found.request.where.gpus[1], GpuName)


def test_equal_texts_become_the_same_objects() -> None:
    values = codec.SharedValues()
    text = '{"priority":1,"request":{"gpu_millis":500}}'
    other = '{"priority":2,"request":{"gpu_millis":500}}'
    first, second, third = (
        values.job(job_id, tenant, 1, each)
        for job_id, tenant, each in (("a", "t-x", text), ("b", "t-" + "x", text), ("c", "t", other))
    )
    assert first.request is second.request is third.request
    assert first.tenant_id is second.tenant_id
    assert first.options is NO_OPTIONS
    assert values.progress('{"state":"pending"}') is PENDING
    assert values.detail("{}", "", "") is NO_DETAIL


def test_more_kinds_than_are_kept_are_still_decoded_right() -> None:
    values = codec.SharedValues()
    for millis in range(codec._SHARED_LIMIT + 5):
        job = values.job("a", "t", 1, f'{{"priority":1,"request":{{"gpu_millis":{millis}}}}}')
        assert job.request == Request(millis)


def test_options_that_say_the_default_are_left_out() -> None:
    job = a_job("a")
    said = type(job)(
        JobId("a"), TenantId("t1"), 500, 10, job.request, "".join(["def", "ault"]), Options()
    )
    assert codec.facts_text(said) == codec.facts_text(job)


def test_a_value_written_by_hand_in_the_shell_is_read() -> None:
    assert codec.SharedValues().progress('{"held": true}') == Progress(held=True)


def test_a_tenant_written_before_it_had_a_name_and_a_tier_is_read() -> None:
    old = codec.decode_tenant('{"tenant_id":"t","max_gpu_millis":2000}')
    assert old == Tenant(TenantId("t"), max_gpu_millis=2000)
    assert (old.tier, old.weight_millis, old.active) == (Tier.NORMAL, 1000, True)
