"""Names of the GNU screen sessions that jobs run in: gpujob_<gpus>_<mode>_<id>. Pure."""

import re
from collections.abc import Sequence
from typing import Final

_MARK: Final = "gpujob"
_MODE: Final = "--mode"
_NO_MODE: Final = "run"
# Screen makes a socket of the name, whose path must fit into 108 bytes with folder and pid.
_LONGEST_GPUS: Final = 16
_LONGEST_MODE: Final = 12
_ODD: Final = re.compile(r"[^A-Za-z0-9.,-]+")


def session_name(gpus: str, argv: Sequence[str], job_id: str) -> str:
    """The mode is what the command is told with --mode."""
    devices = gpus if len(gpus) <= _LONGEST_GPUS else f"{gpus.count(',') + 1}gpus"
    mode = _ODD.sub("-", _mode(argv))[:_LONGEST_MODE]
    return f"{_MARK}_{devices or 'none'}_{mode or _NO_MODE}_{job_id}"


def job_of(session: str) -> str | None:
    """The job of a session; None for one that is not ours."""
    mark, *rest = session.split("_", 3)
    return rest[2] if mark == _MARK and len(rest) == 3 else None


def _mode(argv: Sequence[str]) -> str:
    for position, word in enumerate(argv):
        if word.startswith(f"{_MODE}="):
            return word.partition("=")[2]
        if word == _MODE and position + 1 < len(argv):
            return argv[position + 1]
    return ""
