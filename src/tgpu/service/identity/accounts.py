"""Local users from the system's user database."""

import os
import pwd
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Account:
    uid: int
    gid: int
    groups: tuple[int, ...]  # all of them, the primary one included
    name: str
    home: str
    shell: str


def account_of(uid: int) -> Account | None:
    """None where nobody has that number."""
    try:
        found = pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        return None
    return Account(
        uid=uid,
        gid=found.pw_gid,
        groups=tuple(sorted(os.getgrouplist(found.pw_name, found.pw_gid))),
        name=found.pw_name,
        home=found.pw_dir or "/",
        shell=found.pw_shell or "/bin/sh",
    )


def account_named(name: str) -> Account | None:
    """The account that a name leads to, under the one name that the system gives its number.

    None where there is none. A number is no name: it would mean whoever has it next.
    """
    if not name or name.isdigit():
        return None
    try:
        return account_of(pwd.getpwnam(name).pw_uid)
    except KeyError:
        return None
