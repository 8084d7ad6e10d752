"""Which tenants users of this machine belong to: the user of a tenant to that one, everybody else
as `auth.map` says. Without a map, to the tenant of their own name where there is one, else to
`default`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tgpu.core.model.ids import DEFAULT_TENANT, TenantId
from tgpu.core.state.cluster_state import State
from tgpu.peers.users import Membership, membership_of, name_of
from tgpu.service.identity.caller import Role
from tgpu.service.identity.memberships import CACHE_SECONDS, Memberships
from tgpu.service.identity.user_map import NO_MAP, Mapped, UserMap


@dataclass(frozen=True, slots=True)
class MapSettings:
    rules: UserMap = NO_MAP
    cache_seconds: float = CACHE_SECONDS  # for how long the system's answers are believed


WITHOUT_MAP: Final = MapSettings()


@dataclass(frozen=True, slots=True)
class Belonging:
    """`tenants` None: all of them."""

    name: str
    role: Role
    tenants: frozenset[TenantId] | None
    how: str  # why, in words

    def may_use(self, tenant_id: TenantId) -> bool:
        return self.tenants is None or tenant_id in self.tenants


class LocalUsers:
    def __init__(
        self,
        state: State,
        claimant: Callable[[str], TenantId | None],
        settings: MapSettings,
        memberships: Memberships | None = None,
    ) -> None:
        """`claimant` gives the tenant whose jobs run as a user."""
        self._state = state
        self._claimant = claimant
        self.map = settings.rules
        self.memberships = memberships or Memberships(
            membership_of if self.map.asks_for_groups else name_of, settings.cache_seconds
        )

    async def of(self, uid: int) -> Belonging:
        """Raises Unavailable where the system's lists do not answer."""
        return self._of(await self.memberships.of(uid))

    def now(self, uid: int) -> Belonging | None:
        """The same of what is known without waiting; None where that is too old."""
        member = self.memberships.now(uid)
        return None if member is None else self._of(member)

    async def name(self, uid: int) -> str:
        return (await self.memberships.of(uid)).name

    def advice(self, user: str, how: str, owner: str) -> str:
        """For a user who belongs to no tenant: what there is, and what to ask of whom."""
        there_are = sorted(self._state.ledger.tenants)
        named = ", ".join(there_are[:20]) or "none yet"
        if self.map:
            groups = ", ".join(self.map.groups[:20])
            ask = "to be put into one of these groups: " + groups if groups else ""
            ask = f"for a rule in auth.map{', or ' + ask if ask else ''}"
        else:
            how = f"none is named {user} or default"
            ask = "to assign users to tenants in auth.map of the settings"
        return (
            f"{user} belongs to no tenant here ({how}); there are: {named}. Ask the administrator "
            f"({owner}) {ask}"
        )

    def _of(self, member: Membership) -> Belonging:
        claimed = self._claimant(member.name)
        if claimed is not None:  # whatever a map says: jobs of that tenant run as this user
            how = f"jobs of tenant {claimed} run as {member.name}"
            return Belonging(member.name, Role.USER, frozenset({claimed}), how)
        if self.map:
            return self._mapped(member, self.map.of(member.name, member.groups))
        tenant_id = self._by_name(member.name)
        how = "a tenant of that name" if tenant_id == member.name else "every user of this machine"
        return Belonging(member.name, Role.USER, frozenset({tenant_id}), how)

    def _mapped(self, member: Membership, found: Mapped | None) -> Belonging:
        if found is None:
            groups = ", ".join(sorted(member.groups)[:20])
            which = f" or a group of theirs: {groups}" if groups else ""
            how = f"no rule of auth.map matches {member.name}{which}"
            return Belonging(member.name, Role.USER, frozenset(), how)
        return Belonging(member.name, found.role, found.tenants, found.how)

    def _by_name(self, user: str) -> TenantId:
        own = TenantId(user)
        return own if own in self._state.ledger.tenants else DEFAULT_TENANT
