"""Commands that pause and resume running jobs. For GPUs see `pausing.py`."""

from tgpu.cli.jobs.selecting import All, Name, SomeJobIds, State, Tenant, User, WantedJobs, act
from tgpu.cli.options import ApiUrl, Json, examples

PAUSE_EPILOG = examples(
    "tgpu pause 12", "tgpu pause --name sweep", "tgpu resume 12", "tgpu pause-gpu 3    (a GPU)"
)
RESUME_EPILOG = examples("tgpu resume 12", "tgpu resume --all")


def pause(
    jobs: SomeJobIds = None,
    *,
    is_all: All = False,
    state: State = None,
    name: Name = None,
    user: User = None,
    tenant: Tenant = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> int:
    """Pause running jobs until `tgpu resume`. They keep their GPUs.

    Every process gets SIGSTOP. The job keeps and pays for its GPUs and memory, and its time limit
    keeps running; to free its GPUs, cancel it. For GPUs: tgpu pause-gpu.
    """
    wanted = WantedJobs(jobs, is_all, state, name, user, tenant)
    return act("pause", wanted, as_json=as_json, api_url=api_url)


def resume(
    jobs: SomeJobIds = None,
    *,
    is_all: All = False,
    state: State = None,
    name: Name = None,
    user: User = None,
    tenant: Tenant = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> int:
    """Resume paused jobs. For GPUs: tgpu resume-gpu."""
    wanted = WantedJobs(jobs, is_all, state, name, user, tenant)
    return act("resume", wanted, as_json=as_json, api_url=api_url)
