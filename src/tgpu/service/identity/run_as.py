"""The user a job runs as: decided only here, when it is submitted and again when it starts.

Where callers are told apart (`shared`), no job has the rights of the service: a caller whom the
kernel names runs as themselves, everybody else as the user of the tenant. Users are told apart by
the one name that the system gives their number, so that a second name for it is no second user.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from tgpu.accounts.api import Account, Accounts, NoAccounts
from tgpu.core.errors import Conflict, InvalidRequest
from tgpu.core.model.ids import DEFAULT_TENANT, TenantId
from tgpu.core.model.job import Detail
from tgpu.core.model.tenant import Tenant
from tgpu.core.state.cluster_state import State
from tgpu.service.identity.caller import Principal
from tgpu.service.identity.local_users import WITHOUT_MAP, LocalUsers, MapSettings

TENANT: Final = "{tenant}"  # in `engine.run_as`: the tenant's id


@dataclass(frozen=True, slots=True)
class RunAsRules:
    """What the settings say. `shared`: callers are told apart, and are not all the owner."""

    shared: bool = False
    user: str = ""  # engine.run_as: of tenants that name none; with {tenant}, one for each
    as_service: bool = False  # engine.jobs_as_service_user: where nobody else can be had
    own_uid: int = field(default_factory=os.geteuid)
    users: MapSettings = WITHOUT_MAP  # auth.map: whose local users are whose


NOT_SHARED: Final = RunAsRules()


class JobUsers:
    def __init__(self, state: State, rules: RunAsRules, accounts: Accounts | None = None) -> None:
        """Without `accounts` nobody is there whom jobs could run as but the service's own user."""
        self._state = state
        self.accounts: Accounts = accounts or NoAccounts()
        self.rules = rules
        self.users = LocalUsers(state, self._claimant, rules.users)

    # -- whose user is whose -----------------------------------------------------------------------

    def user_of(self, tenant_id: TenantId) -> str:
        """The user of a tenant's jobs; nothing where it has none."""
        return dict(users_of(self._tenants(), self.rules.user)).get(tenant_id, "")

    # -- when it is submitted ----------------------------------------------------------------------

    async def of_caller(self, caller: Principal, tenant_id: TenantId) -> Account | None:
        """As whom the jobs of a caller run; None: as the service. Raises InvalidRequest."""
        rules = self.rules
        is_local = caller.uid not in (None, rules.own_uid) and rules.own_uid == 0
        if is_local and caller.uid is not None:
            account = await self._account(caller.uid)
            if rules.shared or rules.users.rules:
                await self._check_theirs(account, tenant_id, "tenant_id")
            return account
        return await self.of_tenant(tenant_id) if rules.shared else None

    async def of_file(self, owner: int, tenant_id: TenantId) -> Account | None:
        """As whom the jobs of a file run: as its owner, where only root can be somebody else."""
        if self.rules.own_uid != 0 or owner == 0:
            return await self.of_tenant(tenant_id) if self.rules.shared else None
        account = await self._account(owner)
        if self.rules.shared:
            await self._check_theirs(account, tenant_id, "files.jobs_tenant")
        return account

    async def of_tenant(self, tenant_id: TenantId) -> Account | None:
        """The tenant's own user. Raises InvalidRequest where it has none that will do."""
        rules = self.rules
        if rules.as_service and rules.own_uid != 0:
            return None
        name = self.user_of(tenant_id)
        if not name:
            raise InvalidRequest("tenant_id", tenant_id, _no_user(tenant_id, rules.user))
        account, problem = await asyncio.to_thread(_looked_up, self.accounts, name, rules.own_uid)
        problem = problem or self._also_of(name, tenant_id)
        if problem is not None:
            remedy = f"its jobs run as {name}: {problem}; {_remedy(tenant_id)}"
            raise InvalidRequest("tenant_id", tenant_id, remedy)
        return account

    async def _account(self, uid: int | None) -> Account:
        account = None if uid is None else await asyncio.to_thread(self.accounts.by_uid, uid)
        if account is None:
            raise InvalidRequest("user", uid, "there is no such user on this machine")
        return account

    async def _check_theirs(self, account: Account, tenant_id: TenantId, field: str) -> None:
        """Asked again of those who call for them, a job of theirs for instance: they may have
        left the tenant since."""
        theirs = await self.users.of(account.uid)
        if not theirs.may_use(tenant_id):
            named = ", ".join(sorted(theirs.tenants or ())) or "none"
            remedy = f"jobs that run as {account.name} are of tenant {named}, not of this one"
            raise InvalidRequest(field, tenant_id, remedy)

    # -- when it starts ----------------------------------------------------------------------------

    def refusal(
        self, tenant_id: TenantId, detail: Detail, account: Account | None, uids: "UidsInUse"
    ) -> str | None:
        """Why a job may not start now as the user it was submitted for; None where it may.

        Tenants, users and settings may have changed since. A user who is gone is none of this: that
        is found where the user is to be taken on.
        """
        rules = self.rules
        if account is not None and detail.account not in ("", account.name):
            return _another(account.uid, detail.account, account.name)
        if not rules.shared:
            return None
        if detail.uid is None and rules.as_service and rules.own_uid != 0:
            return None
        if detail.uid in (None, 0, rules.own_uid):
            return f"it would run with the rights of the service; {_remedy(tenant_id)}"
        if account is not None and (problem := self._not_theirs(tenant_id, detail, account)):
            return problem
        assert detail.uid is not None
        name = account.name if account is not None else str(detail.uid)
        in_use = uids.by_another(detail.uid, tenant_id, is_own=is_themselves(detail))
        return f"jobs of another tenant still run as {name}" if in_use else None

    def _not_theirs(self, tenant_id: TenantId, detail: Detail, account: Account) -> str | None:
        claimed = self._claimant(account.name)
        if claimed == tenant_id:
            return None
        if claimed is not None:
            return f"user {account.name} now runs the jobs of another tenant"
        if is_themselves(detail) or not detail.owner:
            return None
        now = self.user_of(tenant_id) or "nobody"
        return (
            f"it was submitted to run as {account.name}, and jobs of tenant {tenant_id} now run as "
            f"{now}; tgpu rerun runs it as that user"
        )

    # -- when tenants are set ----------------------------------------------------------------------

    def check_name(self, user: str) -> None:
        """Whether jobs of a tenant could run as that user. Looks into the system's lists."""
        problem = unfit(self.accounts, user, self.rules.own_uid)
        if problem is not None:
            raise InvalidRequest("run_as", user, problem)

    def check_unique(self, state: State, tenants: Iterable[Tenant]) -> None:
        """Whether these tenants, set together, would share no user. Raises Conflict."""
        after = {use.tenant.tenant_id: use.tenant for use in state.ledger.tenants.values()}
        after |= {tenant.tenant_id: tenant for tenant in tenants}
        shared = shared_user(after.values(), self.rules.user)
        if shared is not None:
            user, first, second = shared
            raise Conflict(
                f"user {user} is that of tenant {first}: jobs of tenant {second} need another "
                f"(run_as), or each could read what the other does",
                [{"field": "run_as", "value": user, "tenant_id": first}],
            )

    def without_user(self) -> list[TenantId]:
        """Tenants whose keys and tokens can run nothing."""
        if not self.rules.shared or self.rules.as_service:
            return []
        have = dict(users_of(self._tenants(), self.rules.user))
        return [tenant.tenant_id for tenant in self._tenants() if tenant.tenant_id not in have]

    def _tenants(self) -> list[Tenant]:
        return [use.tenant for use in self._state.ledger.tenants.values()]

    def _claimant(self, user: str) -> TenantId | None:
        claims = users_of(self._tenants(), self.rules.user)
        return next((tenant_id for tenant_id, name in claims if name == user), None)

    def _also_of(self, user: str, tenant_id: TenantId) -> str | None:
        claims = users_of(self._tenants(), self.rules.user)
        others = [other for other, name in claims if name == user and other != tenant_id]
        return "which is the user of another tenant too" if others else None


class UidsInUse:
    """Which tenants' jobs run as which number now: attempts that may have processes.

    Those of people who run their own jobs as themselves may be of several tenants: nobody reads
    there what is not theirs. A user that is lent to a tenant has jobs of that tenant alone.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[int, TenantId, bool]] = {}
        self._held: dict[int, Counter[tuple[TenantId, bool]]] = {}

    def take(
        self, job_id: str, uid: int | None, tenant_id: TenantId, *, is_own: bool = False
    ) -> None:
        if uid is not None:
            self.give(job_id)
            self._jobs[job_id] = uid, tenant_id, is_own
            self._held.setdefault(uid, Counter())[tenant_id, is_own] += 1

    def give(self, job_id: str) -> None:
        uid, tenant_id, is_own = self._jobs.pop(job_id, (None, None, False))
        if uid is not None and tenant_id is not None:
            self._held[uid] -= Counter([(tenant_id, is_own)])  # without those that are none now
            if not self._held[uid]:
                del self._held[uid]

    def by_another(self, uid: int, tenant_id: TenantId, *, is_own: bool = False) -> bool:
        """Whether a job of this tenant would share its number with one it must not."""
        return any(
            other != tenant_id and not (is_own and is_theirs)
            for other, is_theirs in self._held.get(uid, ())
        )


def as_account(detail: Detail, account: Account | None) -> Detail:
    """The same job, to run as that user; None: as the service."""
    if account is None:
        return replace(detail, uid=None, account="")
    return replace(detail, uid=account.uid, account=account.name)


def is_themselves(detail: Detail) -> bool:
    """Whether a job runs as the local user who submitted it, and not as one it was lent.

    Those are the owners whom the kernel has named: of a connection, or of a file.
    """
    return bool(detail.account) and detail.owner in (
        f"uid:{detail.account}",
        f"file:{detail.account}",
    )


def users_of(tenants: Iterable[Tenant], fallback: str) -> Iterator[tuple[TenantId, str]]:
    """The user of each tenant that has one. Pure.

    A fallback without `{tenant}` is one user, and serves one tenant: `default` if that has none of
    its own, else the only one that has none.
    """
    bare: list[TenantId] = []
    for tenant in tenants:
        if tenant.run_as:
            yield tenant.tenant_id, tenant.run_as
        elif TENANT in fallback:
            yield tenant.tenant_id, fallback.replace(TENANT, tenant.tenant_id)
        else:
            bare.append(tenant.tenant_id)
    if fallback and bare and (DEFAULT_TENANT in bare or len(bare) == 1):
        yield DEFAULT_TENANT if DEFAULT_TENANT in bare else bare[0], fallback


def shared_user(tenants: Iterable[Tenant], fallback: str) -> tuple[str, TenantId, TenantId] | None:
    """A user that two tenants have, and the two; None where each has its own. Pure."""
    seen: dict[str, TenantId] = {}
    for tenant_id, user in sorted(users_of(tenants, fallback)):
        if user in seen:
            return user, seen[user], tenant_id
        seen[user] = tenant_id
    return None


def unfit(accounts: Accounts, name: str, own_uid: int) -> str | None:
    """Why jobs of callers may not run as that user; None where they may."""
    return _looked_up(accounts, name, own_uid)[1]


def _looked_up(accounts: Accounts, name: str, own_uid: int) -> tuple[Account | None, str | None]:
    account = accounts.by_name(name)
    if account is None:
        return None, "there is no such user on this machine"
    problem = None
    if account.uid == 0:
        problem = "jobs of callers may not run as root"
    elif account.uid == own_uid:
        problem = "jobs of callers may not run as the user of the service"
    elif account.name != name:
        problem = f"that is another name of user {account.name}"
    elif own_uid != 0:
        problem = "this service does not run as root, so it cannot run jobs as anybody else"
    return account, problem


def _no_user(tenant_id: TenantId, fallback: str) -> str:
    if fallback and TENANT not in fallback:
        why = f"engine.run_as names one user, {fallback}, which runs the jobs of one tenant only"
    else:
        why = "no user is set for its jobs"
    return f"{why}; {_remedy(tenant_id)}"


def _remedy(tenant_id: TenantId) -> str:
    return (
        f"an admin sets one with: tgpu tenants change {tenant_id} --run-as USER (or "
        "--system-user, which creates one)"
    )


def _another(uid: int, was: str, now: str) -> str:
    return f"user {uid} was {was} when it was submitted, and is {now} now"
