"""What a rerun inherits: never another user's environment or identity."""

from dataclasses import replace

from tgpu.core.model.job import Detail
from tgpu.service.identity.caller import Principal, Role
from tgpu.service.identity.run_as import JobUsers, as_account, is_themselves
from tgpu.store.api import StoredJob


async def rerun_detail(
    run_as: JobUsers, caller: Principal, stored: StoredJob
) -> tuple[Detail, bool]:
    """The new job's detail, and whether it gets the environment that the old one was sent with.

    To its owner it is the same job again. An admin of all tenants repeats it for the owner: it
    stays theirs, with their user and not the admin's. Anybody else takes what to run, and where and
    how, but none of its variables, and it is theirs.
    """
    detail = replace(stored.detail, rerun_of=stored.job.job_id)
    is_own = is_owner(caller, detail)
    is_for_owner = not is_own and caller.role is Role.ADMIN and caller.tenants is None
    if not (is_own or is_for_owner):
        detail = replace(as_account(detail, None), owner=caller.owner, user=caller.name)
        detail = replace(detail, env_id=None, env=(), secrets=(), mail_to=(), mail_on=())
    if stored.job.options.lease:  # it runs nothing
        return detail, is_own or is_for_owner
    if is_for_owner:
        return await _for_the_owner(run_as, stored, detail), True
    return as_account(detail, await run_as.of_caller(caller, stored.job.tenant_id)), is_own


def is_owner(caller: Principal, detail: Detail) -> bool:
    """Whether it is the caller's own: by name, and where the kernel told one, by number."""
    if not detail.owner or detail.owner != caller.owner:
        return False
    return not is_themselves(detail) or detail.uid is None or detail.uid == caller.uid


async def _for_the_owner(run_as: JobUsers, stored: StoredJob, detail: Detail) -> Detail:
    was_lent = not is_themselves(detail) and (bool(detail.owner) or detail.uid is None)
    if run_as.rules.shared and was_lent:
        return as_account(detail, await run_as.of_tenant(stored.job.tenant_id))
    return detail  # as the local user whose it is
