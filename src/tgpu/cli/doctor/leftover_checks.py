"""Checks of `tgpu doctor`: leftovers of deleted data directories, and their removal."""

from pathlib import Path

from tgpu.app.leftovers import Leftover, LeftoverKind, find_leftovers, mend
from tgpu.cli.environment import home_relative
from tgpu.cli.findings import Check, FindingLevel

_NAME = "leftovers"
_FIX = "tgpu doctor --fix"


def leftovers(data_dir: Path, *, fix: bool) -> list[Check]:
    """Nothing where there is nothing left over."""
    found = find_leftovers(str(data_dir / "engine"))
    return [_mended(one) if fix and one.is_mendable else _told(one) for one in found]


def _told(one: Leftover) -> Check:
    where = home_relative(one.directory)
    pid = one.supervisor.pid if one.supervisor is not None else 0
    match one.kind:
        case LeftoverKind.ORPHAN if one.jobs:
            jobs = " ".join(map(str, one.jobs[:20]))
            finding = (
                f"the supervisor {pid} of {where}, which was removed, still runs jobs that no "
                f"scheduler knows (processes {jobs}); their GPUs are in use until they end"
            )
            return Check(
                _NAME, FindingLevel.WARN, finding, f"let them end, or kill them: kill {jobs}"
            )
        case LeftoverKind.ORPHAN:
            finding = f"the supervisor {pid} of {where}, which was removed, has nothing to do"
        case LeftoverKind.DEAF:
            finding = (
                f"the supervisor {pid} of {where} has lost its socket, so no scheduler can "
                "reach it or start; its jobs continue"
            )
            return Check(_NAME, FindingLevel.FAIL, finding, _FIX)
        case LeftoverKind.STALE:
            finding = f"nobody listens on the socket in {where}; the next start replaces it"
    return Check(_NAME, FindingLevel.WARN, finding, _FIX)


def _mended(one: Leftover) -> Check:
    told = _told(one)
    if not mend(one):
        return told
    done = {
        LeftoverKind.ORPHAN: "it was ended",
        LeftoverKind.DEAF: "it was stopped; the next start takes over its jobs",
        LeftoverKind.STALE: "it was removed",
    }
    return Check(_NAME, FindingLevel.OK, f"mended: {told.finding}: {done[one.kind]}")
