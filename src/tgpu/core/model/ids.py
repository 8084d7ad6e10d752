"""Typed ids. A job id is also a folder name, hence its narrow alphabet."""

import re
from typing import Final, NewType

JobId = NewType("JobId", str)
TenantId = NewType("TenantId", str)
NodeId = NewType("NodeId", str)

DEFAULT_TENANT: Final = TenantId("default")
DEFAULT_QUEUE: Final = "default"

# 128 keeps `<job>/<attempt>/stdout.log` far from every file system's limits.
# `last` is how people name the newest job, so no job can have it as its own.
_JOB_ID = re.compile(r"(?!.*\.\.)(?!last$)[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
JOB_ID_RULE: Final = (
    "1 to 128 letters, digits, '.', '_' or '-', starting with none of '.' and '-', without '..', "
    "and not 'last'"
)


def is_job_id(text: str) -> bool:
    return _JOB_ID.fullmatch(text) is not None
