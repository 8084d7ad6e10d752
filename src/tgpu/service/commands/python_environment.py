"""The conda, venv or uv environment of a submission: only its syntax is checked.

No file is looked at here. What the name leads to is found when the job starts, by the child that
becomes the command, as the job's user (engines/local/environments.py): the service may read what
that user may not.
"""

from dataclasses import replace
from typing import Final

from tgpu.core.errors import InvalidRequest
from tgpu.service.commands.submission import RunIn, Submission

KINDS: Final = ("conda", "venv", "uv")
_LONGEST: Final = 4096  # of a path, as the kernel has it


def checked(submission: Submission) -> Submission:
    """The submission with the environment among its details; InvalidRequest where it cannot be."""
    run_in = submission.run_in
    if run_in is None or run_in == RunIn():
        return replace(submission, run_in=None)
    chosen = [(kind, getattr(run_in, kind)) for kind in KINDS if getattr(run_in, kind)]
    kind, name = chosen[0]
    if len(chosen) > 1:
        raise InvalidRequest(*chosen[1], f"{kind} is given as well")
    if not submission.detail.argv:
        raise InvalidRequest(kind, name, "needs a command to run in it")
    if not name.strip() or name.startswith("-"):
        raise InvalidRequest(kind, name, "is not a valid environment name")
    if "\0" in name or len(name) > _LONGEST:
        raise InvalidRequest(
            kind,
            name[:100],
            f"is not a valid path: at most {_LONGEST} characters, no NUL characters",
        )
    return replace(submission, detail=replace(submission.detail, run_in=(kind, name)), run_in=None)
