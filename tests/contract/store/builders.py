"""Small worlds for the tests of the stores, and strategies for everything they keep."""

from hypothesis import strategies as st

from tgpu.core.model.events import JobMoved, JobsSubmitted
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import (
    Array,
    Dependency,
    DependencyKind,
    Detail,
    Job,
    Options,
    Request,
    Where,
)
from tgpu.core.model.lifecycle import (
    PENDING,
    TERMINAL,
    JobState,
    Move,
    Progress,
    end,
    place,
    run,
)
from tgpu.core.model.node import Gpu, Node, Placement, Share
from tgpu.core.model.tenant import Tenant, TenantQueue, Tier
from tgpu.core.model.usage import GpuTimeUsage
from tgpu.store.api import AuditRow, Record

ONE_GPU = Request(1000, "A100")
ON_GPU_0 = Placement(NodeId("n0"), "A100", (Share(0, 1000),))


def a_job(job_id: str, *, tenant: str = "t1", array: Array | None = None, at: int = 10) -> Job:
    return Job(JobId(job_id), TenantId(tenant), 500, at, ONE_GPU, array=array)


def submitted(*jobs: Job, at: int = 10, held: tuple[str, ...] = ()) -> JobsSubmitted:
    return JobsSubmitted(at, jobs, frozenset(JobId(each) for each in held))


def submission(*job_ids: str, **details: Detail) -> Record:
    """Jobs of these ids; details by id, for those that have any."""
    jobs = [a_job(job_id) for job_id in job_ids]
    return Record([submitted(*jobs)], {JobId(key): value for key, value in details.items()})


def started(job_id: str, at: int = 20) -> JobMoved:
    return JobMoved(at, JobId(job_id), Move.START, place(JobId(job_id), PENDING, ON_GPU_0, at))


def running(job_id: str, at: int = 30) -> JobMoved:
    progress = run(JobId(job_id), started(job_id).progress, at, pid=4711)
    return JobMoved(at, JobId(job_id), Move.RUN, progress)


def completed(job_id: str, at: int = 40) -> JobMoved:
    progress = end(JobId(job_id), running(job_id).progress, JobState.COMPLETED, at, exit_code=0)
    return JobMoved(at, JobId(job_id), Move.COMPLETE, progress)


def cancelled(job_id: str, at: int = 25) -> JobMoved:
    progress = end(JobId(job_id), PENDING, JobState.CANCELLED, at, cause="asked for")
    return JobMoved(at, JobId(job_id), Move.CANCEL, progress)


def audited(at: int, tenant: str | None = "t1") -> AuditRow:
    tenant_id = None if tenant is None else TenantId(tenant)
    return AuditRow(at, "key:ci", "POST /api/v1/jobs", "job-1", tenant_id, "127.0.0.1", "ok", "x")


# -- strategies --------------------------------------------------------------------------------

# Lone surrogates are no text: the service refuses them long before.
texts = st.text(st.characters(codec="utf-8"), max_size=12)
words = st.text("abcXYZ09._-", min_size=1, max_size=8)
amounts = st.integers(0, 2**53)
instants = st.integers(0, 2**53)
pairs = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)

requests = st.builds(
    Request,
    gpu_millis=amounts,
    gpu_type=st.none() | texts,
    gpu_mem_mib=amounts,
    cpu_millis=amounts,
    mem_mib=amounts,
    workers=st.integers(1, 9),
    where=st.builds(
        Where,
        gpu_types=st.lists(texts, max_size=2).map(tuple),
        gpu_mem_each_mib=amounts,
        gpus=st.lists(st.integers(0, 15), max_size=3).map(tuple),
        nodes=st.lists(texts, max_size=2).map(tuple),
        labels=pairs,
        exclusive=st.booleans(),
    ),
)
options = st.builds(
    Options,
    time_limit_ms=st.none() | amounts,
    max_retries=amounts,
    backoff_ms=amounts,
    requeue=st.booleans(),
    lease=st.booleans(),
    user=texts,
    deadline_at=st.none() | instants,
    preemptible=st.booleans(),
    checkpoint_signal=st.none() | st.integers(1, 64),
    booking=st.none() | texts,
    compute_millis=st.none() | amounts,
)
arrays = st.builds(Array, array_id=texts, index=amounts, max_running=st.none() | amounts)
dependencies = st.builds(Dependency, job_id=words.map(JobId), kind=st.sampled_from(DependencyKind))
jobs = st.builds(
    Job,
    job_id=words.map(JobId),
    tenant_id=texts.map(TenantId),
    priority=st.integers(-(2**53), 2**53),
    submitted_at=instants,
    request=requests,
    queue=texts,
    options=options,
    after=st.lists(dependencies, max_size=2).map(tuple),
    array=st.none() | arrays,
)
details = st.builds(
    Detail,
    name=texts,
    user=texts,
    argv=st.lists(texts, max_size=3).map(tuple),
    cwd=texts,
    env_id=st.none() | texts,
    env=pairs,
    image=texts,
    params=pairs,
    rerun_of=st.none() | words.map(JobId),
)
shares = st.builds(Share, gpu_index=st.integers(0, 15), millis=st.integers(1, 1000))
placements = st.builds(
    Placement,
    node_id=texts.map(NodeId),
    gpu_type=texts,
    shares=st.lists(shares, max_size=3).map(tuple),
)
progresses = st.builds(
    Progress,
    state=st.sampled_from(JobState),
    attempt=amounts,
    failures=amounts,
    restarts=amounts,
    held=st.booleans(),
    eligible_at=instants,
    placement=st.none() | placements,
    started_at=st.none() | instants,
    ended_at=st.none() | instants,
    pid=st.none() | amounts,
    exit_code=st.none() | st.integers(-255, 255),
    signal=st.none() | st.integers(1, 64),
    cause=st.none() | texts,
    stopping=st.booleans(),
)
tenants = st.builds(
    Tenant,
    tenant_id=texts.map(TenantId),
    max_gpu_millis=st.none() | amounts,
    max_gpu_millis_by_type=st.lists(st.tuples(texts, amounts), max_size=2).map(tuple),
    max_gpu_mem_mib=st.none() | amounts,
    max_cpu_millis=st.none() | amounts,
    max_mem_mib=st.none() | amounts,
    max_running_jobs=st.none() | amounts,
    name=texts,
    tier=st.sampled_from(Tier),
    weight_millis=amounts,
    allow_preemption=st.booleans(),
    active=st.booleans(),
    enforce_quota=st.booleans(),
    created_at=instants,
)
queues = st.builds(
    TenantQueue,
    tenant_id=texts.map(TenantId),
    name=texts,
    priority=st.integers(-(2**53), 2**53),
    max_running_jobs=st.none() | amounts,
    enabled=st.booleans(),
    created_at=instants,
)
usages = st.builds(GpuTimeUsage, amounts, amounts, amounts, amounts)
audit_rows = st.builds(
    AuditRow,
    at=instants,
    actor=texts,
    action=texts,
    target=texts,
    tenant_id=st.none() | texts.map(TenantId),
    origin=texts,
    outcome=texts,
    detail=texts,
)
gpus = st.builds(
    Gpu,
    index=st.integers(0, 15),
    uuid=texts,
    gpu_type=texts,
    mem_mib=amounts,
    nvlink_group=st.none() | st.integers(0, 7),
    problem=st.none() | texts,
    paused=st.none() | texts,
)
nodes = st.builds(
    Node,
    node_id=texts.map(NodeId),
    gpus=st.lists(gpus, max_size=2).map(tuple),
    cpu_millis=amounts,
    mem_mib=amounts,
    simulated=st.booleans(),
)


def is_over(progress: Progress) -> bool:
    return progress.state in TERMINAL
