"""`SchedulerService` over a real connection: every call, done and refused."""

import asyncio
from typing import Any

import grpc
import pytest

from tests.unit.api.grpc.conftest import Refused, Served, refusal, refusal_of, serving
from tests.unit.service.eventually import eventually
from tgpu.api.grpc.scheduler import LAST_SEQ
from tgpu.core.model.lifecycle import JobState
from tgpu.wire import scheduler_pb2 as pb

SLEEP = ["sleep", "60"]


async def submit(served: Served, **fields: Any) -> str:
    answer = await served.scheduler.SubmitJob(pb.SubmitJobRequest(command=SLEEP, **fields))
    return str(answer.job_id)


# -- SubmitJob -------------------------------------------------------------------------------------


async def test_a_job_is_submitted(served):
    answer = await served.scheduler.SubmitJob(
        pb.SubmitJobRequest(command=SLEEP, name="train", gpu_count=2, priority=0)
    )
    assert (answer.status, answer.job_ids) == ("submitted", [])
    stored = await served.service.job(answer.job_id)
    assert (stored.detail.argv, stored.detail.name) == (("sleep", "60"), "train")
    assert (stored.job.request.gpu_millis, stored.job.priority) == (2000, 0)


async def test_an_image_is_refused_where_the_engine_runs_none(served):
    asked = pb.SubmitJobRequest(command=SLEEP, image="pytorch:2.0")
    refused = await refusal(served.scheduler.SubmitJob(asked))
    assert refused.status == "INVALID_ARGUMENT"
    assert "runs commands on the machine itself and not in container images" in refused.message


async def test_fields_left_out_have_the_defaults_of_rest(served):
    stored = await served.service.job(await submit(served))
    job = stored.job
    assert (job.tenant_id, job.queue, job.priority) == ("default", "default", 500)
    assert (job.request.gpu_millis, job.options.backoff_ms) == (1000, 10_000)


async def test_a_sweep_is_submitted(served):
    answer = await served.scheduler.SubmitJob(
        pb.SubmitJobRequest(
            command=["train", "{lr}", "{seed}"],
            params={"lr": pb.Values(values=["0.1", "0.01"]), "seed": pb.Values(values=["7"])},
        )
    )
    assert len(answer.job_ids) == 2
    assert {(await served.service.job(j)).detail.argv for j in answer.job_ids} == {
        ("train", "0.1", "7"),
        ("train", "0.01", "7"),
    }


async def test_an_array_with_a_dependency_is_submitted(served):
    first = await submit(served, job_id="first")
    answer = await served.scheduler.SubmitJob(
        pb.SubmitJobRequest(
            command=SLEEP,
            array=pb.ArrayRequest(indexes="1-3", max_running=2),
            after=[pb.After(job_id=first, kind="any")],
            environment={"SEED": "1"},
        )
    )
    stored = await served.service.job(answer.job_ids[0])
    assert stored.job.array is not None
    assert stored.job.array.max_running == 2
    assert [(d.job_id, d.kind) for d in stored.job.after] == [("first", "any")]
    assert dict(stored.detail.env) == {"SEED": "1"}


async def test_the_same_job_twice_is_one(served):
    await submit(served, job_id="j1")
    answer = await served.scheduler.SubmitJob(pb.SubmitJobRequest(command=SLEEP, job_id="j1"))
    assert (answer.job_id, answer.message) == (
        "j1",
        "Job was submitted before with the same content",
    )


@pytest.mark.parametrize(
    ("request_", "status", "code", "message"),
    [
        ({"gpu_count": 0.001}, "INVALID_ARGUMENT", "VALIDATION_ERROR", "gpu_count: "),
        ({"max_retries": -1}, "INVALID_ARGUMENT", "VALIDATION_ERROR", "max_retries: must be at"),
        ({"tenant_id": "x"}, "INVALID_ARGUMENT", "VALIDATION_ERROR", "tenant_id: "),
        ({"name": "a\0b"}, "INVALID_ARGUMENT", "VALIDATION_ERROR", "name: must not contain NUL"),
        (
            {"tenant_id": "small", "gpu_count": 2},
            "RESOURCE_EXHAUSTED",
            "QUOTA_EXCEEDED",
            "quota exceeded for tenant small: GPUs requested=2, quota=1, current=0",
        ),
        ({"job_id": "taken"}, "ALREADY_EXISTS", "DUPLICATE_JOB", "job taken already exists"),
    ],
)
async def test_a_job_that_cannot_be_is_refused(served, request_, status, code, message):
    await submit(served, job_id="taken", name="other")
    told = await refusal(served.scheduler.SubmitJob(pb.SubmitJobRequest(**request_)))
    assert (told.status, told.code) == (status, code)
    assert told.message.startswith(message)
    assert told.details != []


# -- CancelJob, GetJobStatus, ListJobs -------------------------------------------------------------


async def test_a_waiting_job_is_cancelled_at_once(served):
    job_id = await submit(served)
    answer = await served.scheduler.CancelJob(pb.CancelJobRequest(job_id=job_id))
    assert (answer.job_id, answer.status, answer.message) == (job_id, "cancelled", "Job cancelled")


async def test_a_running_job_is_being_ended(served):
    job_id = await submit(served)
    await served.box.run(job_id)
    answer = await served.scheduler.CancelJob(pb.CancelJobRequest(job_id="last"))
    assert (answer.status, answer.message) == ("running", "Job is being stopped")


async def test_a_job_that_is_over_cannot_be_cancelled(served):
    job_id = await submit(served)
    await served.scheduler.CancelJob(pb.CancelJobRequest(job_id=job_id))
    told = await refusal(served.scheduler.CancelJob(pb.CancelJobRequest(job_id=job_id)))
    assert (told.status, told.code) == ("FAILED_PRECONDITION", "CONFLICT")


async def test_a_running_job_is_paused_and_goes_on(served):
    job_id = await submit(served)
    await served.box.run(job_id)
    answer = await served.scheduler.PauseJob(pb.PauseJobRequest(job_id=job_id))
    assert (answer.job_id, answer.status) == (job_id, "running")
    assert answer.message.startswith("Job is paused: it keeps its GPUs and memory")
    job = await served.scheduler.GetJobStatus(pb.GetJobStatusRequest(job_id=job_id))
    assert job.paused_at
    answer = await served.scheduler.ResumeJob(pb.ResumeJobRequest(job_id=job_id))
    assert answer.message == "Job continues"
    told = await refusal(served.scheduler.ResumeJob(pb.ResumeJobRequest(job_id=job_id)))
    assert (told.status, told.code) == ("FAILED_PRECONDITION", "CONFLICT")


async def test_the_id_of_an_array_cancels_all_that_is_left_of_it(served):
    request = pb.SubmitJobRequest(command=["t"], array=pb.ArrayRequest(indexes="1-3"))
    array_id = (await served.scheduler.SubmitJob(request)).job_id
    answer = await served.scheduler.CancelJob(pb.CancelJobRequest(job_id=array_id))
    assert (answer.job_id, answer.status) == (array_id, "cancelled")
    assert answer.message == f"cancelled 3 jobs of array {array_id}: 3 waiting"


@pytest.mark.parametrize("call", ["CancelJob", "GetJobStatus", "PauseJob", "ResumeJob"])
@pytest.mark.parametrize(
    ("job_id", "status", "code"),
    [
        ("nobody", "NOT_FOUND", "JOB_NOT_FOUND"),
        ("last", "NOT_FOUND", "JOB_NOT_FOUND"),
        ("", "INVALID_ARGUMENT", "VALIDATION_ERROR"),
    ],
)
async def test_a_job_that_is_not_there_is_not_found(served, call, job_id, status, code):
    request = getattr(pb, f"{call}Request")
    told = await refusal(getattr(served.scheduler, call)(request(job_id=job_id)))
    assert (told.status, told.code) == (status, code)


async def test_a_waiting_job_says_why(served):
    await submit(served, gpu_count=4, gpu_type="A100")
    job_id = await submit(served, gpu_count=4, gpu_type="A100")
    await served.box.tick()
    job = await served.scheduler.GetJobStatus(pb.GetJobStatusRequest(job_id=job_id))
    assert (job.state, job.reason.code) == ("pending", "gpus_busy")
    assert job.reason.facts["requested"] == 4000
    assert not job.HasField("started_at")
    assert not job.HasField("exit_code")


async def test_a_running_job_has_its_gpus(served):
    job_id = await submit(served, gpu_count=2, gpu_type="A100", environment={"API_TOKEN": "x"})
    await served.box.run(job_id)
    job = await served.scheduler.GetJobStatus(pb.GetJobStatusRequest(job_id=job_id))
    assert (job.state, list(job.gpus), job.node) == ("running", [0, 1], "local")
    assert (list(job.command), dict(job.environment)) == (SLEEP, {"API_TOKEN": "******"})


async def test_jobs_are_listed_by_pages(served):
    for number in range(5):
        await submit(served, job_id=f"j{number}")
    pages, cursor = [], None
    while True:
        answer = await served.scheduler.ListJobs(pb.ListJobsRequest(limit=2, cursor=cursor))
        pages.append([job.job_id for job in answer.jobs])
        if not answer.HasField("next_cursor"):
            break
        cursor = answer.next_cursor
    assert pages == [["j4", "j3"], ["j2", "j1"], ["j0"]]


async def test_jobs_are_listed_by_state_and_tenant(served):
    await submit(served, job_id="mine")
    await submit(served, job_id="theirs", tenant_id="small")
    await served.service.jobs.cancel((await served.service.job("mine")).job.job_id)
    by_state = await served.scheduler.ListJobs(pb.ListJobsRequest(states=["cancelled", "failed"]))
    by_tenant = await served.scheduler.ListJobs(pb.ListJobsRequest(tenant_id="small"))
    assert [job.job_id for job in by_state.jobs] == ["mine"]
    assert [job.job_id for job in by_tenant.jobs] == ["theirs"]


@pytest.mark.parametrize(
    ("request_", "field"),
    [({"states": ["odd"]}, "state"), ({"limit": 5000}, "limit"), ({"cursor": -1}, "cursor")],
)
async def test_a_list_that_cannot_be_is_refused(served, request_, field):
    told = await refusal(served.scheduler.ListJobs(pb.ListJobsRequest(**request_)))
    assert (told.status, told.code) == ("INVALID_ARGUMENT", "VALIDATION_ERROR")
    assert told.details[0]["field"] == field


# -- UpdateTenantQuota -----------------------------------------------------------------------------


async def test_a_quota_is_changed_and_the_rest_stays(served):
    answer = await served.scheduler.UpdateTenantQuota(
        pb.UpdateTenantQuotaRequest(
            tenant_id="small", max_gpus_by_type={"H100": 2}, max_concurrent_jobs=3
        )
    )
    assert (answer.id, answer.max_gpus, answer.max_concurrent_jobs) == ("small", 1, 3)
    tenant = served.service.state.ledger.tenants["small"].tenant
    assert tenant.max_gpu_millis_by_type == (("H100", 2000),)
    assert tenant.max_running_jobs == 3


async def test_a_limit_is_lifted(served):
    await served.scheduler.UpdateTenantQuota(
        pb.UpdateTenantQuotaRequest(tenant_id="small", max_gpus_by_type={"H100": 2})
    )
    answer = await served.scheduler.UpdateTenantQuota(
        pb.UpdateTenantQuotaRequest(tenant_id="small", lift=["max_gpus", "max_gpus_by_type"])
    )
    assert not answer.HasField("max_gpus")
    tenant = served.service.state.ledger.tenants["small"].tenant
    assert (tenant.max_gpu_millis, tenant.max_gpu_millis_by_type) == (None, ())


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        ({"tenant_id": "nobody", "max_gpus": 1}, "NOT_FOUND", "NOT_FOUND"),
        ({"max_gpus": 1}, "INVALID_ARGUMENT", "VALIDATION_ERROR"),
        ({"tenant_id": "small", "max_gpus": -1}, "INVALID_ARGUMENT", "VALIDATION_ERROR"),
        ({"tenant_id": "small", "max_gpus": 0.001}, "INVALID_ARGUMENT", "VALIDATION_ERROR"),
        ({"tenant_id": "small", "lift": ["name"]}, "INVALID_ARGUMENT", "VALIDATION_ERROR"),
        ({"tenant_id": "small", "priority_tier": "x"}, "INVALID_ARGUMENT", "VALIDATION_ERROR"),
    ],
)
async def test_a_quota_that_cannot_be_is_refused(served, request_, status, code):
    call = served.scheduler.UpdateTenantQuota(pb.UpdateTenantQuotaRequest(**request_))
    told = await refusal(call)
    assert (told.status, told.code) == (status, code)


# -- GetClusterStatus, GetMetrics ------------------------------------------------------------------


async def test_the_cluster_is_shown_in_numbers(served):
    await submit(served)
    status = await served.scheduler.GetClusterStatus(pb.GetClusterStatusRequest())
    assert (status.total_nodes, status.online_nodes) == (1, 1)
    assert (status.total_gpus, status.available_gpus) == (6, 6)
    assert (status.pending_jobs, status.jobs_by_state["pending"]) == (1, 1)
    assert (status.simulated, status.data_dir) == (True, "/data")


async def test_the_metrics_have_tenants_and_gpus(served):
    job_id = await submit(served, tenant_id="small")
    await served.box.run(job_id)
    metrics = await served.scheduler.GetMetrics(pb.GetMetricsRequest())
    assert (metrics.queue_size, metrics.running_jobs, metrics.available_gpus) == (0, 1, 5)
    assert {t.id: t.current_gpus for t in metrics.tenants} == {"default": 0, "small": 1}
    assert [(node.name, len(node.gpus)) for node in metrics.nodes] == [("local", 6)]
    assert metrics.nodes[0].gpus[0].temperature_c > 0
    assert metrics.last_seq == served.service.feed.last_seq


# -- WatchEvents -----------------------------------------------------------------------------------


async def watching(served: Served, **fields: Any) -> Any:
    """A stream that has begun: nothing from now on is missed."""
    call = served.scheduler.WatchEvents(pb.WatchEventsRequest(**fields))
    await call.initial_metadata()
    return call


async def read(call: Any, count: int) -> list[Any]:
    async with asyncio.timeout(10):
        return [await call.read() for _ in range(count)]


async def test_a_watcher_is_told_of_every_change(served):
    call = await watching(served)
    job_id = await submit(served, gpu_type="H100")
    await served.service.jobs.cancel((await served.service.job(job_id)).job.job_id)
    submitted, cancelled = await read(call, 2)
    assert (submitted.kind, submitted.job_id, submitted.state) == (
        "job_submitted",
        job_id,
        "pending",
    )
    assert submitted.data["gpu_type"] == "H100"
    assert cancelled.seq == submitted.seq + 1
    assert (cancelled.kind, cancelled.state, cancelled.tenant_id) == (
        "job_cancelled",
        "cancelled",
        "default",
    )
    call.cancel()


async def test_a_watcher_goes_on_where_it_stopped(served):
    for number in range(4):
        await submit(served, job_id=f"j{number}")
    first = await watching(served, after=0)
    seen = await read(first, 3)
    first.cancel()
    again = await watching(served, after=seen[-1].seq)
    seen += await read(again, served.service.feed.last_seq - seen[-1].seq)
    again.cancel()
    assert [event.seq for event in seen] == list(range(1, served.service.feed.last_seq + 1))


async def test_a_stream_begins_with_the_newest_number(served):
    await submit(served)
    call = await watching(served)
    metadata = {key: value for key, value in await call.initial_metadata()}
    assert metadata[LAST_SEQ] == str(served.service.feed.last_seq)
    call.cancel()


async def test_a_watcher_of_one_job_or_tenant_is_told_of_no_other(served):
    await submit(served, job_id="mine")
    by_job = await watching(served, job_id="mine")
    by_tenant = await watching(served, tenant_ids=["small"])
    await submit(served, job_id="yours")
    await submit(served, job_id="theirs", tenant_id="small")
    await served.service.jobs.cancel((await served.service.job("mine")).job.job_id)
    (of_job,) = await read(by_job, 1)
    (of_tenant,) = await read(by_tenant, 1)
    assert (of_job.kind, of_job.job_id) == ("job_cancelled", "mine")
    assert (of_tenant.kind, of_tenant.job_id) == ("job_submitted", "theirs")
    by_job.cancel()
    by_tenant.cancel()


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"job_id": "nobody"}, "NOT_FOUND", "JOB_NOT_FOUND"),
        ({"after": 99_999}, "OUT_OF_RANGE", "EVENTS_GONE"),
        ({"after": -1}, "INVALID_ARGUMENT", "VALIDATION_ERROR"),
    ],
)
async def test_a_watch_that_cannot_be_is_refused(served, fields, status, code):
    call = served.scheduler.WatchEvents(pb.WatchEventsRequest(**fields))
    told = await refusal(call.read())
    assert (told.status, told.code) == (status, code)


async def drained(call: Any) -> tuple[list[int], Refused]:
    """All that comes, and how it ended."""
    seen: list[int] = []
    try:
        while (event := await call.read()) is not grpc.aio.EOF:
            seen.append(event.seq)
    except grpc.aio.AioRpcError as error:
        return seen, refusal_of(error)
    raise AssertionError("it ended as if all were well")


async def test_a_watcher_that_takes_nothing_is_dropped_and_can_go_on(served):
    served.service.feed.stall_seconds = 0.2
    call = await watching(served)
    first = served.service.feed.last_seq + 1
    # More than the buffers of both sides hold, while the watcher reads nothing: each submission
    # is one event with two hundred kilobytes of job ids.
    for number in range(40):
        array = pb.ArrayRequest(indexes="1-2000")
        await submit(served, job_id=f"{number:0>100}", array=array)
    await eventually(lambda: not served.service.feed.watchers, "the watcher to be dropped", 30)
    async with asyncio.timeout(30):
        seen, told = await drained(call)
    assert (told.status, told.code) == ("ABORTED", "SLOW_READER")
    assert seen == list(range(first, first + len(seen)))
    # The last one may have been on its way when the patience ended.
    assert told.details[0]["after"] in (seen[-1], seen[-1] - 1)
    again = await watching(served, after=seen[-1])
    assert (await read(again, 1))[0].seq == seen[-1] + 1
    again.cancel()


async def test_a_watcher_is_told_when_the_service_ends(served):
    call = await watching(served)
    served.service.stop_waiting()
    told = await refusal(call.read())
    assert (told.status, told.code) == ("UNAVAILABLE", "UNAVAILABLE")


# -- the service itself ----------------------------------------------------------------------------


async def test_every_call_waits_for_the_service_to_be_ready():
    async with serving(None) as made:
        calls = [
            made.scheduler.SubmitJob(pb.SubmitJobRequest()),
            made.scheduler.CancelJob(pb.CancelJobRequest(job_id="x")),
            made.scheduler.GetJobStatus(pb.GetJobStatusRequest(job_id="x")),
            made.scheduler.ListJobs(pb.ListJobsRequest()),
            made.scheduler.UpdateTenantQuota(pb.UpdateTenantQuotaRequest(tenant_id="x")),
            made.scheduler.GetMetrics(pb.GetMetricsRequest()),
            made.scheduler.GetClusterStatus(pb.GetClusterStatusRequest()),
            made.scheduler.WatchEvents(pb.WatchEventsRequest()).read(),
            made.agents.RegisterAgent(pb.RegisterAgentRequest()),
            made.agents.ReportMetrics(pb.ReportMetricsRequest()),
        ]
        for call in calls:
            told = await refusal(call)
            assert (told.status, told.code) == ("UNAVAILABLE", "SERVICE_NOT_READY")


async def test_a_bug_of_ours_is_told_as_one(served, monkeypatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(served.service.jobs, "submit", broken)
    told = await refusal(served.scheduler.SubmitJob(pb.SubmitJobRequest()))
    assert (told.status, told.code) == ("INTERNAL", "INTERNAL_ERROR")
    assert "ZeroDivisionError" not in told.message


async def test_what_grpc_submits_rest_and_the_cycle_see(served):
    job_id = await submit(served)
    assert await served.box.tick() == [job_id]
    await served.box.until(job_id, JobState.RUNNING)


async def test_a_gang_with_constraints_is_submitted_and_shown(served):
    job_id = await submit(
        served,
        workers=2,
        gpu_count=1,
        gpu_types=["A100", "H100"],
        excluded_gpus=[3],
        excluded_nodes=["elsewhere"],
        spread=True,
        deadline="2100-01-31T09:00:00Z",
        preemptible=False,
        checkpoint_signal="10",
    )
    job = await served.scheduler.GetJobStatus(pb.GetJobStatusRequest(job_id=job_id))
    assert (job.workers, job.gpu_count, job.gpus_per_worker) == (2, 2, 1)
    assert list(job.constraints.gpu_types) == ["A100", "H100"]
    assert list(job.constraints.excluded_gpus) == [3]
    assert list(job.constraints.excluded_nodes) == ["elsewhere"]
    assert (job.constraints.spread, job.constraints.exclusive) == (True, False)
    assert job.deadline == "2100-01-31T09:00:00.000Z"
    assert (job.preemptible, job.checkpoint_signal) == (False, "USR1")


async def test_a_plain_job_has_no_constraints_and_is_preemptible(served):
    job_id = await submit(served)
    job = await served.scheduler.GetJobStatus(pb.GetJobStatusRequest(job_id=job_id))
    assert (job.workers, job.preemptible) == (1, True)
    assert not job.HasField("constraints")
    assert not job.HasField("deadline")


async def test_cohort_and_budget_of_a_tenant_are_set_and_lifted(served):
    request = pb.UpdateTenantQuotaRequest(
        tenant_id="default",
        cohort="science",
        max_borrow_gpus=2,
        budget=pb.Budget(gpu_hours=10, action="hold"),
    )
    tenant = await served.scheduler.UpdateTenantQuota(request)
    assert (tenant.cohort, tenant.max_borrow_gpus) == ("science", 2)
    budget = tenant.budget
    assert (budget.gpu_hours, budget.window, budget.action) == (10, "month", "hold")
    lifting = pb.UpdateTenantQuotaRequest(tenant_id="default", lift=["budget", "max_borrow_gpus"])
    lifted = await served.scheduler.UpdateTenantQuota(lifting)
    assert not lifted.HasField("budget")
    assert not lifted.HasField("max_borrow_gpus")
