"""From a stored job and its placement to what the engine needs. Pure."""

from collections.abc import Mapping
from typing import Final

from gpu_scheduler.core.job import Detail, Job
from gpu_scheduler.core.lifecycle import Progress
from gpu_scheduler.core.units import gpus_text
from gpu_scheduler.engines.api import AttemptKey, Launch, RunAs
from gpu_scheduler.service.accounts import Account


def launch_of(
    job: Job,
    detail: Detail,
    progress: Progress,
    base: Mapping[str, str],
    *,
    log_dir: str,
    grace_ms: int,
    home: str,
    account: Account | None = None,
) -> Launch:
    """`account` is the user that `detail.uid` names, if there is one."""
    if account is not None:
        home = account.home
        base = base if detail.env_id is not None else {**base, **_of_account(account)}
    env = {**base, **dict(detail.env), **_assigned(job, detail, progress), "TGPU_LOG_DIR": log_dir}
    return Launch(
        key=AttemptKey(job.job_id, progress.attempt),
        argv=detail.argv,
        cwd=detail.cwd or home,
        env=env,
        time_limit_ms=job.options.time_limit_ms,
        grace_ms=grace_ms,
        user=_run_as(detail.uid, account),
    )


def _run_as(uid: int | None, account: Account | None) -> RunAs | None:
    if uid is None:
        return None
    if account is None:
        return RunAs(uid, None, ())
    return RunAs(account.uid, account.gid, account.groups)


def _of_account(account: Account) -> dict[str, str]:
    """What a login sets, in place of the same of whoever runs the service."""
    name = account.name
    return {"HOME": account.home, "USER": name, "LOGNAME": name, "SHELL": account.shell}


# Left over from a surrounding job when one job submits another: never the new job's own. The rest
# of what `_assigned` sets is set for every job.
_NOT_INHERITED: Final = ("TGPU_ARRAY_ID", "TGPU_ARRAY_INDEX", "TGPU_PARAM_")


def inherited(base: Mapping[str, str]) -> dict[str, str]:
    """What a job takes over from the environment of its submitter."""
    return {name: value for name, value in base.items() if not name.startswith(_NOT_INHERITED)}


def _assigned(job: Job, detail: Detail, progress: Progress) -> dict[str, str]:
    """What only the scheduler may set, so it wins over the submitter's environment."""
    shares = progress.placement.shares if progress.placement is not None else ()
    indexes = ",".join(str(share.gpu_index) for share in shares)
    env = {
        "CUDA_VISIBLE_DEVICES": indexes,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "TGPU_JOB_ID": job.job_id,
        "TGPU_JOB_NAME": detail.name,
        "TGPU_TENANT": job.tenant_id,
        "TGPU_ATTEMPT": str(progress.attempt),
        "TGPU_RESTARTS": str(progress.restarts),
        "TGPU_GPUS": indexes,
        "TGPU_GPU_COUNT": gpus_text(job.request.gpu_millis),
        "TGPU_GPU_TYPE": progress.placement.gpu_type if progress.placement else "",
    }
    if job.array is not None:
        env["TGPU_ARRAY_ID"] = job.array.array_id
        env["TGPU_ARRAY_INDEX"] = str(job.array.index)
    for name, value in detail.params:
        env[f"TGPU_PARAM_{name}"] = value
    return env
