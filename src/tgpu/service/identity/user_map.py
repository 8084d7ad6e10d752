"""`auth.map`: which tenants a user of this machine belongs to, by name and groups. Pure.

The most specific sort of rule decides alone: of the user's name, then of their groups, then
patterns, then the default. Rules of one sort add up, so who is in two groups has the tenants of
both. A role is of its rule: the first in the file gives it, and a rule with another role adds
nothing, or an administrator of one tenant would be one of all they belong to.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Final

from tgpu.core.model.ids import TenantId
from tgpu.service.identity.caller import Role, scope_of


class Sort(IntEnum):
    """The most specific first."""

    USER = 0
    GROUP = 1
    PATTERN = 2
    DEFAULT = 3


@dataclass(frozen=True, slots=True)
class MapRule:
    """About whom: one of `user` and `group`, with neither about everybody else."""

    tenants: tuple[str, ...]
    role: Role = Role.USER
    user: str = ""
    group: str = ""

    @property
    def sort(self) -> Sort:
        name = self.user or self.group
        if not name:
            return Sort.DEFAULT
        if "*" in name or "?" in name:
            return Sort.PATTERN
        return Sort.USER if self.user else Sort.GROUP

    def fits(self, user: str, groups: Iterable[str]) -> bool:
        if self.user:
            return fnmatchcase(user, self.user)
        return not self.group or any(fnmatchcase(group, self.group) for group in groups)

    def __str__(self) -> str:
        if self.user:
            return f"user {self.user}"
        return f"group {self.group}" if self.group else "default"


@dataclass(frozen=True, slots=True)
class Mapped:
    """What a map gives to somebody; `tenants` None: all of them."""

    role: Role
    tenants: frozenset[TenantId] | None
    how: str  # "auth.map: group vision-team"


@dataclass(frozen=True, slots=True)
class UserMap:
    """Without rules it says nothing of anybody."""

    rules: tuple[MapRule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rules)

    @property
    def asks_for_groups(self) -> bool:
        return any(rule.group for rule in self.rules)

    @property
    def groups(self) -> list[str]:
        """That rules are about: who joins one of them belongs to a tenant."""
        return list(dict.fromkeys(rule.group for rule in self.rules if rule.group))

    def of(self, user: str, groups: Iterable[str]) -> Mapped | None:
        """None where no rule fits."""
        known = sorted(groups)
        fitting = [rule for rule in self.rules if rule.fits(user, known)]
        if not fitting:
            return None
        sort = min(rule.sort for rule in fitting)
        deciding = [rule for rule in fitting if rule.sort is sort]
        role = deciding[0].role
        deciding = [rule for rule in deciding if rule.role is role]
        scopes = [scope_of(rule.role, rule.tenants or None) for rule in deciding]
        named = [scope for scope in scopes if scope is not None]
        tenants = frozenset().union(*named) if len(named) == len(scopes) else None
        return Mapped(role, tenants, f"auth.map: {', '.join(str(rule) for rule in deciding)}")


NO_MAP: Final = UserMap()
