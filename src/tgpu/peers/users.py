"""Who the user at the other end of a connection is: name and groups, by this machine's lists.

Those lists may be on another machine (LDAP, sssd), slow, or hang: what is here blocks meanwhile.
"""

import grp
import os
import pwd
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Membership:
    name: str
    groups: frozenset[str] = frozenset()


def user_name(uid: int) -> str:
    """Its number where nobody has a name for it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def name_of(uid: int) -> Membership:
    """Without the groups, which cost more to ask for."""
    return Membership(user_name(uid))


def membership_of(uid: int) -> Membership:
    try:
        found = pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        return Membership(str(uid))
    names = (_group_name(gid) for gid in os.getgrouplist(found.pw_name, found.pw_gid))
    return Membership(found.pw_name, frozenset(name for name in names if name))


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except (KeyError, OverflowError):
        return ""
