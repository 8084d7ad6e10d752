"""Checks at start that other users cannot read or replace secret files."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from tgpu.app.refusal import CannotServe
from tgpu.settings import Settings


def check_secret_files(
    settings: Settings, config: Path | None = None, secret_keys: Sequence[str] = ()
) -> None:
    """Raises CannotServe where any user of this machine, so any job, could take what is secret.

    `secret_keys` are those that the settings file `config` holds itself.
    """
    if not settings.auth.enabled:
        return  # jobs are of the owner of these files
    files = {
        "api.tls_key": settings.api.tls_key,
        "auth.jwt_secret_file": settings.auth.jwt_secret_file,
        f"the settings file, which holds {', '.join(secret_keys)}": config if secret_keys else None,
    }
    for what, path in files.items():
        if path is not None and is_open_to_all(path, stat.S_IROTH):
            raise CannotServe(
                f"{what}: everybody on this machine can read {path}, jobs of all tenants included; "
                f"fix it with: chmod o-r {path}"
            )
    data_dir = settings.data_directory
    if is_open_to_all(data_dir, stat.S_IWOTH):
        raise CannotServe(
            f"the data directory {data_dir} can be written by everybody on this machine, jobs "
            f"included: they could put their own files there; fix it with: chmod 700 {data_dir}"
        )


def is_open_to_all(path: Path, right: int) -> bool:
    """Whether users who are neither owner nor in the group have that right, and get there."""
    try:
        real = Path(os.path.realpath(path))
        if not real.stat().st_mode & right:
            return False
        return all(parent.stat().st_mode & stat.S_IXOTH for parent in real.parents)
    except OSError:  # not there: whoever needs it says so
        return False
