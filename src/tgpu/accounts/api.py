"""The port of the users that jobs can run as."""

from dataclasses import dataclass
from typing import Protocol

from tgpu.core.errors import InvalidRequest
from tgpu.core.model.ids import TenantId


@dataclass(frozen=True, slots=True)
class Account:
    uid: int
    gid: int
    groups: tuple[int, ...]  # all of them, the primary one included
    name: str
    home: str
    shell: str


class Accounts(Protocol):
    """Where jobs run. The lists may be on another machine: all but the last block meanwhile."""

    def by_uid(self, uid: int) -> Account | None:
        """None where nobody has that number."""

    def by_name(self, name: str) -> Account | None:
        """The account that a name leads to, under the one name that the system gives its number.

        None where there is none. A number is no name: it would mean whoever has it next.
        """

    def read_as(self, account: Account | None, path: str, most: int) -> bytes | None:
        """The beginning of a plain file; nothing where it cannot be read now, None if there is
        none. As `account`, or as who runs the service where that is None. Blocks too."""

    async def make_for(self, tenant_id: TenantId) -> str:
        """The name of the user that was made for a tenant's jobs, now or before.

        Raises what stands in the way.
        """


class NoAccounts:
    """Where nothing knows users: every job runs as whoever runs the engine."""

    def by_uid(self, uid: int) -> Account | None:
        return None

    def by_name(self, name: str) -> Account | None:
        return None

    def read_as(self, account: Account | None, path: str, most: int) -> bytes | None:
        return None

    async def make_for(self, tenant_id: TenantId) -> str:
        remedy = "users cannot be made where these jobs run; name one that is there with run_as"
        raise InvalidRequest("system_user", True, remedy)
