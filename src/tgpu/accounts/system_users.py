"""Creates the local users that jobs of tenants run as, each with its own home and no login.

Made with the system's own useradd, which keeps its lists whole whatever happens meanwhile. Asked
twice, it finds the user that it made; one of the same name that it did not make is left alone.
"""

import asyncio
import contextlib
import hashlib
import os
import pwd
import re
import shutil
import stat
from typing import Final

import structlog

from tgpu.core.errors import Conflict, InvalidRequest, Unavailable
from tgpu.core.model.ids import TenantId

_log = structlog.get_logger("gpu_scheduler.service")

_PREFIX: Final = "tgpu-"
_LONGEST: Final = 32  # of a name, by useradd and by utmp
_PLAIN: Final = re.compile(r"[a-z0-9_-]+")
_HOMES: Final = "/var/lib"
_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
_SECONDS: Final = 60.0  # for useradd, which may have to wait for somebody else's


def system_user_name(tenant_id: TenantId) -> str:
    """The name of a tenant's user: `tgpu-vision`.

    Ids that are no names, or too long, get a part of their digest: no two become one.
    """
    if _PLAIN.fullmatch(tenant_id) and len(_PREFIX + tenant_id) <= _LONGEST:
        return _PREFIX + tenant_id
    digest = hashlib.sha256(tenant_id.encode()).hexdigest()[:8]
    readable = re.sub(r"[^a-z0-9_-]+", "-", tenant_id.lower())
    room = _LONGEST - len(_PREFIX) - len(digest) - 1
    return f"{_PREFIX}{readable[:room]}-{digest}"


class SystemUsers:
    def __init__(self, own_uid: int | None = None, homes: str = _HOMES) -> None:
        self._own_uid = os.geteuid() if own_uid is None else own_uid
        self._homes = homes
        self._making = asyncio.Lock()

    async def make(self, tenant_id: TenantId) -> str:
        """The name of the tenant's user, who is there then. Raises what stands in the way."""
        if self._own_uid != 0:
            remedy = "only a service that runs as root can create users and run jobs as them"
            raise InvalidRequest("system_user", True, remedy)
        name = system_user_name(tenant_id)
        async with self._making:
            found = await asyncio.to_thread(_entry, name)
            if found is None:
                await self._add(name, tenant_id)
            elif found.pw_gecos not in _abouts(tenant_id):
                raise Conflict(
                    f"user {name} exists already and was not created for tenant {tenant_id}; to "
                    f"run its jobs as that user, use: --run-as {name}",
                    [{"field": "system_user", "value": name}],
                )
            # Again where an earlier try was cut short: the home is for that user alone.
            await asyncio.to_thread(self._shut, name)
        return name

    async def _add(self, name: str, tenant_id: TenantId) -> None:
        useradd = shutil.which("useradd", path=_PATH)
        if useradd is None:
            raise Conflict(
                "there is no useradd on this machine: create a user for the tenant yourself and "
                f"set it with: tgpu tenants change {tenant_id} --run-as USER"
            )
        nologin = shutil.which("nologin", path=_PATH) or "/bin/false"
        words = [useradd, "--system", "--user-group", "--shell", nologin]
        words += ["--create-home", "--home-dir", self._home(name)]
        words += ["--comment", _abouts(tenant_id)[0], "--", name]
        code, said = await _run(words)
        if code != 0:
            raise Conflict(
                f"useradd could not create the user {name}: {said or f'exit code {code}'}"
            )
        _log.info("created a user for the jobs of a tenant", user=name, tenant=tenant_id)

    def _home(self, name: str) -> str:
        return f"{self._homes}/{name}"

    def _shut(self, name: str) -> None:
        """Whatever the system's default is, other tenants may not look into it."""
        with contextlib.suppress(FileNotFoundError):
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            home = os.open(self._home(name), flags)
            try:
                found = os.fstat(home)
                if found.st_uid == pwd.getpwnam(name).pw_uid and stat.S_IMODE(found.st_mode) & 0o77:
                    os.fchmod(home, 0o700)
            finally:
                os.close(home)


async def _run(words: list[str]) -> tuple[int, str]:
    """Exit code and the last line it said. No shell, nothing of our environment."""
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={"PATH": _PATH, "LC_ALL": "C"},
        cwd="/",
    )
    try:
        async with asyncio.timeout(_SECONDS):
            said, _ = await process.communicate()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise Unavailable(f"useradd took more than {_SECONDS:.0f} s; try again") from None
    lines = said.decode(errors="replace").strip().splitlines()
    return process.returncode or 0, lines[-1][:200] if lines else ""


def _entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _abouts(tenant_id: TenantId) -> tuple[str, str]:
    """The comment in the list of users, by which we know our own, and what it was before."""
    return f"tgpu jobs of tenant {tenant_id}", f"gpu-scheduler jobs of tenant {tenant_id}"
