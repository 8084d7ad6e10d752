"""One run of `tgpu lease`, and the variables of a lease."""

import shlex

from tgpu.cli.connect import connected, ensure_service
from tgpu.cli.exit_codes import ExitCode
from tgpu.cli.failures import Failure
from tgpu.cli.output import note, say, show_json
from tgpu.cli.render.jobs import gpus_held
from tgpu.cli.sessions.running import started
from tgpu.cli.submit.option_fields import JobOptions
from tgpu.cli.submit.send import build, real_id, submit
from tgpu.client.http import Client
from tgpu.wire.v1 import GpuList, JobModel


def take_lease(options: JobOptions, api_url: str | None, *, as_json: bool) -> int:
    build(options, lambda job_id: job_id)  # bad input is refused before a service is started
    ensure_service(api_url)
    with connected(api_url) as client:
        request, _ = build(options, lambda job_id: real_id(client, job_id))
        job = started(client, submit(client, request).job_id)
        return ExitCode.INTERRUPTED if job is None else _print(client, job, as_json=as_json)


def print_lease(job_id: str, api_url: str | None, *, as_json: bool) -> int:
    with connected(api_url) as client:
        return _print(client, client.get_job(job_id), as_json=as_json)


def lease_variables(job: JobModel, gpus: GpuList) -> dict[str, str]:
    """What a job on these GPUs would be told; slices of a GPU have no number that CUDA knows."""
    known = {gpu.index: gpu for gpu in gpus.gpus if gpu.node in ("", job.node)}
    numbers = ",".join(map(str, job.gpus))
    names = [known[i].uuid if i in known else str(i) for i in job.gpus]
    is_sliced = any(i in known and known[i].slice_of is not None for i in job.gpus)
    found = {
        "CUDA_VISIBLE_DEVICES": ",".join(names) if is_sliced else numbers,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "TGPU_JOB_ID": job.job_id,
        "TGPU_GPUS": numbers,
    }
    percent = round(job.gpus_per_worker % 1 * 100)
    if percent:  # a part of a GPU, where CUDA's multi-process service divides it
        found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(percent)
    return found


def check_lease(job: JobModel) -> None:
    """Raises Failure where it is none that has its GPUs."""
    if job.command:
        raise Failure(
            f"job {job.job_id} has a command, so it is not a lease",
            f"open a shell in it with: tgpu shell {job.job_id}",
            exit_code=ExitCode.WRONG_STATE,
            code="NO_LEASE",
        )
    if job.state != "running":
        raise Failure(
            f"lease {job.job_id} is {job.state} and has no GPUs",
            f"see: tgpu why {job.job_id}",
            exit_code=ExitCode.WRONG_STATE,
            code="NOT_RUNNING",
        )


def _print(client: Client, job: JobModel, *, as_json: bool) -> int:
    check_lease(job)
    variables = lease_variables(job, client.gpus())
    if as_json:
        held = {"gpus": job.gpus, "gpu_names": job.gpu_names}
        show_json({"job_id": job.job_id, **held, "variables": variables})
        return ExitCode.OK
    for name, value in variables.items():
        say(f"export {name}={shlex.quote(value)}")
    note(
        f"lease {job.job_id} holds GPU {gpus_held(job)}; release it with: tgpu complete "
        f"{job.job_id}"
    )
    return ExitCode.OK
