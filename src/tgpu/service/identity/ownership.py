"""Ownership of jobs: what a caller may do to one. One function decides for every API. Pure.

A job belongs to a user of its tenant, by name: the name of the API key, the subject of the token
or the Unix user that submitted it (`Options.user`). What is done to it is for that user, for the
administrators of the tenant and for operators; how much other members see is the tenant's to say.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from tgpu.core.errors import Forbidden, NotFound
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.ids import TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.tenant import MembersSee
from tgpu.core.state.cluster_state import State
from tgpu.service.identity.caller import Permission, Principal, Role, not_allowed
from tgpu.store.api import JobQuery


class Action(StrEnum):
    """What can be done to a job. The value completes "… may …"."""

    SEE = "see it"
    LOGS = "read its log"
    ENVIRONMENT = "see its environment"
    CANCEL = "cancel it"
    HOLD = "hold it"
    RELEASE = "release it"
    PRIORITY = "change its priority"
    EDIT = "edit it"
    PAUSE = "pause it"
    RESUME = "resume it"
    COMPLETE = "complete it"
    CHECKPOINT = "mark its checkpoints"
    RERUN = "run it again"
    SHELL = "open a shell in it"
    ATTACH = "attach to it"


class Relation(StrEnum):
    """What a caller is to a job."""

    STRANGER = "stranger"  # of another tenant
    MEMBER = "member"  # of its tenant
    OWNER = "owner"
    TENANT_ADMIN = "tenant_admin"  # an admin or operator who is bound to tenants, this one too
    OPERATOR = "operator"  # an admin or operator of all tenants


# What changes nothing; all the rest takes a role that may change jobs.
_READS: Final = frozenset({Action.SEE, Action.LOGS, Action.ENVIRONMENT})
# What members may do to each other's jobs, by what their tenant lets them see.
_MEMBERS: Final = {
    MembersSee.NOTHING: frozenset[Action](),
    MembersSee.JOBS: frozenset({Action.SEE}),
    MembersSee.LOGS: frozenset({Action.SEE, Action.LOGS}),
}


def may(caller: Principal, action: Action, job: Job, members_see: MembersSee) -> bool:
    """Whether the caller may do that to the job: by role, and by what they are to it."""
    if not caller.may(permission_for(action)):
        return False
    match relation_of(caller, job):
        case Relation.STRANGER:
            return False
        case Relation.MEMBER:
            return action in _MEMBERS[members_see]
        case _:
            return True


def relation_of(caller: Principal, job: Job) -> Relation:
    if not caller.sees(job.tenant_id):
        return Relation.STRANGER
    if caller.role in (Role.ADMIN, Role.OPERATOR):
        return Relation.OPERATOR if caller.tenants is None else Relation.TENANT_ADMIN
    # A job without a user, as versions before wrote some, is nobody's own: but it is itself.
    is_own = bool(caller.user) and caller.user == job.options.user
    is_itself = bool(caller.job_id) and caller.job_id == job.job_id
    return Relation.OWNER if is_own or is_itself else Relation.MEMBER


def permission_for(action: Action) -> Permission:
    return Permission.READ if action in _READS else Permission.CHANGE_JOBS


def permits(state: State, caller: Principal, action: Action, job: Job) -> bool:
    """The same, with the setting of the job's tenant as it is now."""
    return may(caller, action, job, members_see(state, job.tenant_id))


def check(state: State, caller: Principal, action: Action, job: Job) -> None:
    """Raises NotFound where the caller may not even see the job, else Forbidden."""
    if permits(state, caller, action, job):
        return
    if not caller.may(permission_for(action)):
        raise not_allowed(caller, permission_for(action))
    if not permits(state, caller, Action.SEE, job):
        raise no_job(job.job_id)
    owner = job.options.user
    whose = f"job {job.job_id} is {owner}'s" if owner else f"job {job.job_id} has no owner"
    raise Forbidden(
        f"{whose}: only {_and_who_else(owner, job.tenant_id)} may {action}",
        [{"job_id": job.job_id, "owner": owner, "action": action.name.lower()}],
    )


def check_booking(caller: Principal, booking: AdvanceReservation) -> None:
    """Before it is given back, which cancels the jobs that wait in it. Raises Forbidden."""
    is_own = bool(caller.user) and caller.user == booking.user
    if is_own or caller.role in (Role.ADMIN, Role.OPERATOR):
        return
    name, owner = booking.booking_id, booking.user
    whose = f"reservation {name} is {owner}'s" if owner else f"reservation {name} has no owner"
    raise Forbidden(
        f"{whose}: only {_and_who_else(owner, booking.tenant_id)} may cancel it",
        [{"id": name, "owner": owner}],
    )


def _and_who_else(owner: str, tenant_id: TenantId) -> str:
    return f"{owner + ', ' if owner else ''}administrators of tenant {tenant_id} and operators"


def no_job(job_id: str) -> NotFound:
    """The same words whether it is not there or not the caller's to see."""
    return NotFound("job", job_id, "`tgpu list --all` shows all jobs")


def members_see(state: State, tenant_id: TenantId) -> MembersSee:
    use = state.ledger.tenants.get(tenant_id)
    return MembersSee.JOBS if use is None else use.tenant.members_see


@dataclass(frozen=True, slots=True)
class Sight:
    """Whose jobs a caller sees, for lists, counts and streams."""

    tenants: frozenset[TenantId] | None  # None: all
    own_only: frozenset[TenantId] = frozenset()  # of these, the caller's own alone
    user: str = ""

    def sees(self, tenant_id: TenantId | None, user: str) -> bool:
        if not self.sees_tenant(tenant_id):
            return False
        return tenant_id not in self.own_only or (bool(user) and user == self.user)

    def sees_tenant(self, tenant_id: TenantId | None) -> bool:
        return self.tenants is None or tenant_id in self.tenants

    def sees_job(self, job: Job) -> bool:
        return self.sees(job.tenant_id, job.options.user)

    def within(self, *wanted: str) -> "Sight":
        """Of these tenants only, as far as the caller sees them."""
        if not wanted:
            return self
        named = frozenset(TenantId(name) for name in wanted)
        tenants = named if self.tenants is None else named & self.tenants
        return Sight(tenants, self.own_only & tenants, self.user)

    def narrowed(self, query: JobQuery) -> JobQuery:
        """The same question, about the jobs that the caller sees."""
        return replace(
            query,
            tenant_ids=None if self.tenants is None else tuple(sorted(self.tenants)),
            own_only=tuple(sorted(self.own_only)),
            own_user=self.user,
        )


SEES_ALL: Final = Sight(None)
Look = Callable[[], Sight]  # a stream asks again and again: the setting may change under it


def sight_of(state: State, caller: Principal) -> Sight:
    if caller.role in (Role.ADMIN, Role.OPERATOR):
        return Sight(caller.tenants)
    hidden = frozenset(
        tenant_id
        for tenant_id, use in state.ledger.tenants.items()
        if use.tenant.members_see is MembersSee.NOTHING and caller.sees(tenant_id)
    )
    return Sight(caller.tenants, hidden, caller.user)


def users_sight(state: State, job: Job) -> Sight:
    """What the user of a job sees in its tenant, for what is told of it to whoever sees it."""
    tenant = frozenset({job.tenant_id})
    is_hidden = members_see(state, job.tenant_id) is MembersSee.NOTHING
    return Sight(tenant, tenant if is_hidden else frozenset(), job.options.user)
