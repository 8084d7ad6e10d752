"""From a stored job and its placement to what the engine needs. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from tgpu.accounts.api import Account
from tgpu.core.model.job import Detail, Job
from tgpu.core.model.lifecycle import Progress
from tgpu.core.model.node import Node, Part, Placement
from tgpu.core.model.units import gpus_text
from tgpu.engines.api import NO_LIMITS, AttemptLimits, Binding, Launch, RunAs
from tgpu.service.attempt_key import attempt_key
from tgpu.service.identity.run_as import is_themselves
from tgpu.text.masking import given_values, mask_argv, mask_values
from tgpu.text.session_name import session_name

_MIB: Final = 1024**2


def launch_of(
    job: Job,
    detail: Detail,
    progress: Progress,
    base: Mapping[str, str],
    *,
    grace_ms: int,
    home: str,
    account: Account | None = None,
    nodes: Sequence[Node] = (),
    limits: AttemptLimits = NO_LIMITS,
    multiplexer: str = "",
    script_folders: tuple[str, ...] = (),
    log_limit_mib: int | None = None,
    binding: Binding = Binding.EXACT,
) -> Launch:
    """`account` is the user that `detail.uid` names, if there is one; `nodes` those it is on.

    What depends on its place is for the engine to add, which may be the one that chooses it.
    With a `multiplexer` all jobs run in its sessions, and not only those that ask for one.
    `log_limit_mib` is for those that ask for no limit of their own.
    """
    if account is not None:
        home = account.home
        base = _for_account(base, account, detail)
    if job.request.workers > 1:
        base = {name: value for name, value in base.items() if name not in _OF_A_GANG}
    own = {**dict(detail.env), **dict(detail.secrets)}
    log_limit = log_limit_mib if detail.log_limit_mib is None else detail.log_limit_mib
    placement = _as_bound(progress.placement, binding)
    return Launch(
        key=attempt_key(job, progress.attempt),
        argv=detail.argv,
        cwd=detail.cwd or home,
        env={**base, **own, **_assigned(job, detail, progress)},
        time_limit_ms=job.options.time_limit_ms,
        grace_ms=grace_ms,
        user=_run_as(detail.uid, account),
        limits=limits,
        session=session_of(job, detail, progress, multiplexer) if binding is Binding.EXACT else "",
        multiplexer=_multiplexer(detail, multiplexer) or "screen",
        environment=detail.run_in,
        script_folders=script_folders,
        home=home,
        log_limit_bytes=None if log_limit is None else log_limit * _MIB,
        secrets=given_values(detail.secrets),
        request=job.request,
        compute_millis=job.options.compute_millis,
        placement=placement,
        nodes=() if placement is None else tuple(nodes),
        image=detail.image,
        tenant=job.tenant_id,
        account=detail.account,
    )


def _as_bound(placement: Placement | None, binding: Binding) -> Placement | None:
    """As far as we choose: to an engine that picks GPUs, ours are a count and none of its own."""
    if placement is None or binding is Binding.ENGINE:
        return None
    if binding is Binding.EXACT:
        return placement
    others = tuple(Part(part.node_id, ()) for part in placement.others)
    return Placement(placement.node_id, placement.gpu_type, (), others)


def session_of(job: Job, detail: Detail, progress: Progress, multiplexer: str) -> str:
    """The name of the session that an attempt runs in; nothing where it runs in none."""
    placement = progress.placement
    if placement is None or placement.others or not _multiplexer(detail, multiplexer):
        return ""
    gpus = ",".join(str(share.gpu_index) for share in placement.shares)
    # Everybody sees the names of sessions, and asks for them without the secrets of the command.
    words = [mask_values(word, given_values(detail.secrets)) for word in mask_argv(detail.argv)]
    return session_name(gpus, words, job.job_id)


def _multiplexer(detail: Detail, default: str) -> str:
    if detail.screen or detail.tmux:
        return "tmux" if detail.tmux else "screen"
    return default


def _run_as(uid: int | None, account: Account | None) -> RunAs | None:
    if uid is None:
        return None
    if account is None:
        return RunAs(uid, None, ())
    return RunAs(account.uid, account.gid, account.groups)


# Of whoever is logged in: of no use to another user, or theirs alone.
_OF_A_LOGIN: Final = frozenset(
    {
        *("XDG_RUNTIME_DIR", "XDG_SESSION_ID", "DBUS_SESSION_BUS_ADDRESS", "MAIL"),
        *("SSH_AUTH_SOCK", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "XAUTHORITY"),
    }
)


_NO_SHELLS: Final = ("/nologin", "/false", "/true")


def _for_account(base: Mapping[str, str], account: Account, detail: Detail) -> Mapping[str, str]:
    """What a login of that user sets, in place of the same of the service or of the submitter.

    A local user's own environment stays as it was: it is of the very user that the job runs as.
    """
    if detail.env_id is not None and (is_themselves(detail) or not detail.owner):
        return base
    name = account.name
    # Users without a login have a shell that runs nothing; programs that ask for one want another.
    shell = "/bin/sh" if account.shell.endswith(_NO_SHELLS) else account.shell
    login = {"HOME": account.home, "USER": name, "LOGNAME": name, "SHELL": shell}
    return {key: value for key, value in base.items() if key not in _OF_A_LOGIN} | login


# Left over from a surrounding job when one job submits another: never the new job's own. The rest
# of what `_assigned` and the engine set is set for every job.
_NOT_INHERITED: Final = (
    *("TGPU_ARRAY_ID", "TGPU_ARRAY_INDEX", "TGPU_PARAM_", "TGPU_RANK", "TGPU_WORLD_SIZE"),
    *("TGPU_NODE_LIST", "TGPU_GPU_FRACTION", "TGPU_GPU_MEM_LIMIT_MB"),
)
# Names that are not ours: dropped only where a surrounding job of ours must have set them.
_OF_A_GANG: Final = frozenset(
    {
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK"),
        *("MASTER_ADDR", "MASTER_PORT"),
    }
)
_OF_A_SHARE: Final = frozenset(
    {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"}
)


def inherited(base: Mapping[str, str]) -> dict[str, str]:
    """What a job takes over from the environment of its submitter."""
    dropped: set[str] = set()
    if "TGPU_RANK" in base:
        dropped |= _OF_A_GANG
    if "TGPU_GPU_FRACTION" in base:
        dropped |= _OF_A_SHARE
    return {
        name: value
        for name, value in base.items()
        if name not in dropped and not name.startswith(_NOT_INHERITED)
    }


# -- what the scheduler alone may set ------------------------------------------------------------


def _assigned(job: Job, detail: Detail, progress: Progress) -> dict[str, str]:
    """What only the scheduler may set, so it wins over the submitter's environment.

    The engine adds the rest, when it knows the place: see `engines/placing.py`.
    """
    env = {
        "TGPU_JOB_ID": job.job_id,
        "TGPU_JOB_UUID": job.identity,
        "TGPU_JOB_NAME": detail.name,
        "TGPU_TENANT": job.tenant_id,
        "TGPU_ATTEMPT": str(progress.attempt),
        "TGPU_RESTARTS": str(progress.restarts),
        "TGPU_GPU_COUNT": gpus_text(job.request.gpu_millis),
    }
    if job.array is not None:
        env["TGPU_ARRAY_ID"] = job.array.array_id
        env["TGPU_ARRAY_INDEX"] = str(job.array.index)
    for name, value in detail.params:
        env[f"TGPU_PARAM_{name}"] = value
    return env
