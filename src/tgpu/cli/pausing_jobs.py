"""Commands that have running jobs stand still: pause, resume. Of GPUs see `pausing.py`."""

from tgpu.cli.options import ApiUrl, Json, examples
from tgpu.cli.selecting import All, Name, SomeJobIds, State, Tenant, User, Wanted, act

PAUSE_EPILOG = examples(
    "tgpu pause 12", "tgpu pause --name sweep", "tgpu resume 12", "tgpu pause-gpu 3    (of a GPU)"
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
    """Have running jobs stand still until `tgpu resume`. They keep their GPUs.

    Every process gets STOP. GPUs and memory stay the job's own and are charged, and its time limit
    goes on; to give its GPUs to others: tgpu cancel. Of a GPU: tgpu pause-gpu.
    """
    wanted = Wanted(jobs, is_all, state, name, user, tenant)
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
    """Have paused jobs go on where they stood still. Of a GPU: tgpu resume-gpu."""
    wanted = Wanted(jobs, is_all, state, name, user, tenant)
    return act("resume", wanted, as_json=as_json, api_url=api_url)
