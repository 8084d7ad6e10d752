"""The command that `tgpu why` offers makes the job it was made for."""

import shlex

import pytest

from tests.builders import a_job
from tgpu.api.translate.resubmit import resubmit_command
from tgpu.api.translate.submissions import submission_of
from tgpu.core.model.job import Detail, Job
from tgpu.wire.v1 import SubmitRequest

DETAIL = Detail(name="my run", argv=("python", "t.py", "--x", "a b"), cwd="/")
JOBS = {
    "plain": a_job(),
    "share": a_job(gpus=0.25, gpu_mem_mib=4096),
    "memory": a_job(gpus=4, gpu_mem_mib=4 * 20_480, cpus=16, mem_mib=65_536),
    "gang": a_job(gpus=8, workers=4, cpus=8, mem_mib=4096, gpu_mem_mib=8 * 1000),
    "types": a_job(gpu_types=("H100", "A100")),
    "where": a_job(
        allowed_gpus=(0, 2),
        not_nodes=("n7",),
        labels=(("rack", "r1"),),
        exclusive=True,
        same_island=True,
        spread=True,
    ),
    "size": a_job(gpu_mem_each_mib=81_920, nodes=("n1", "n2"), not_gpus=(3,)),
    "options": a_job(
        time_limit_ms=5_400_000,
        max_retries=2,
        requeue=True,
        preemptible=False,
        checkpoint_signal=10,
        booking="r-1",
        priority=900,
        queue="night",
        tenant="vision",
    ),
}


@pytest.mark.parametrize("name", JOBS)
def test_what_is_typed_makes_the_same_job(tgpu, service, name: str) -> None:
    job: Job = JOBS[name]
    command = resubmit_command("12", job, DETAIL, {"SEED": "1 2"}, 500)
    submit, _, cancel = command.partition(" && ")
    assert cancel == "tgpu cancel 12"
    tgpu(*shlex.split(submit)[1:])
    made = submission_of(SubmitRequest(**service.bodies[0]))
    assert made.request == job.request
    for field in ("time_limit_ms", "max_retries", "requeue", "preemptible", "booking"):
        assert getattr(made.options, field) == getattr(job.options, field)
    assert made.options.checkpoint_signal == job.options.checkpoint_signal
    assert (made.queue, made.tenant_id or "default") == (job.queue, job.tenant_id)
    assert (made.priority or 500) == job.priority
    assert (made.detail.argv, made.detail.cwd) == (DETAIL.argv, DETAIL.cwd)
    assert dict(made.detail.env) == {"SEED": "1 2"}
