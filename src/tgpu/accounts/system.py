"""The users of this machine, as the system's lists have them."""

import os
import pwd

from tgpu.accounts.api import Account
from tgpu.accounts.system_users import SystemUsers
from tgpu.accounts.user_files import read_as
from tgpu.core.model.ids import TenantId


class SystemAccounts:
    """`Accounts` of the machine that this runs on."""

    def __init__(self) -> None:
        self._system_users = SystemUsers()

    def by_uid(self, uid: int) -> Account | None:
        return account_of(uid)

    def by_name(self, name: str) -> Account | None:
        return account_named(name)

    def read_as(self, account: Account | None, path: str, most: int) -> bytes | None:
        return read_as(account, path, most)

    async def make_for(self, tenant_id: TenantId) -> str:
        return await self._system_users.make(tenant_id)


def account_of(uid: int) -> Account | None:
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
    if not name or name.isdigit():
        return None
    try:
        return account_of(pwd.getpwnam(name).pw_uid)
    except KeyError:
        return None
