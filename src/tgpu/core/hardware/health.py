"""GPU errors: which take a GPU out of service, and when it may take jobs again.

A drained GPU takes no new job. Once its fault is gone it must stay clean for a while, or an
operator must vouch for it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from tgpu.core.model.ids import NodeId
from tgpu.core.model.node import Placement
from tgpu.text.instants import utc_text

# Errors of the driver's catalogue after which the hardware is not to be trusted with new work.
FATAL_XIDS: Final = MappingProxyType(
    {
        48: "memory error that could not be corrected",
        54: "no auxiliary power",
        61: "internal microcontroller breakpoint",
        62: "internal microcontroller halted",
        63: "a memory row or page is being retired",
        64: "a memory row or page could not be retired",
        69: "the graphics engine reported a class error",
        74: "NVLink error",
        79: "fell off the bus",
        92: "too many corrected memory errors",
        94: "contained memory error",
        95: "uncontained memory error",
        109: "context switch timed out",
        110: "security fault",
        119: "the GPU's system processor does not answer",
        120: "the GPU's system processor failed",
        136: "ALI training failed",
        140: "unrecovered memory error",
        143: "initialisation failed",
        144: "NVLink: SAW error",
        145: "NVLink: RLW error",
        146: "NVLink: TLW error",
        147: "NVLink: TREX error",
        148: "NVLink: NVLPW error",
        149: "NVLink: network interface error",
        150: "NVLink: MSE error",
        151: "key rotation failed",
        154: "needs recovery before it can be used",
        155: "NVLink: software-defined error",
        156: "resource retired",
        158: "GPU fatal timeout",
    }
)
# The fault of the program that runs: whatever it does, the next job finds a sound GPU.
APPLICATION_XIDS: Final = MappingProxyType(
    {
        8: "the program's work timed out",
        13: "illegal instruction or access by the program",
        31: "illegal address used by the program",
        32: "invalid commands sent by the program",
        43: "the program's work was stopped",
        45: "the program's work was cleaned up",
        68: "video decoder used wrongly by the program",
    }
)


@dataclass(frozen=True, slots=True)
class Signs:
    """What the driver tells of one GPU's errors at one moment. None: it does not tell."""

    lost: str | None = None
    ecc_uncorrected: int | None = None  # since the driver was loaded
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    xids: tuple[int, ...] = ()  # the latest, oldest first
    xid_count: int = 0  # all since the reader began; some may no longer be in `xids`


@dataclass(frozen=True, slots=True)
class GpuHealth:
    """What is remembered of a GPU; kept over restarts."""

    fault: str | None = None  # the newest: "Xid 79, fell off the bus"
    fault_at: int = 0
    present: bool = False  # the last reading still shows it
    clean_since: int | None = None
    probation: bool = False
    ecc_seen: int = 0
    xid_seen: int = 0


HEALTHY: Final = GpuHealth()


def examine(before: GpuHealth, signs: Signs, now: int, probation_ms: int) -> GpuHealth:
    """The health after a reading."""
    fault = _fault(before, signs)
    seen = replace(
        before,
        ecc_seen=before.ecc_seen if signs.ecc_uncorrected is None else signs.ecc_uncorrected,
        xid_seen=signs.xid_count,
    )
    if fault is not None:
        # A fault that merely lasts keeps its instant: it is compared with when jobs began.
        lasts = before.present and before.fault == fault
        since = before.fault_at if lasts else now
        return replace(
            seen, fault=fault, fault_at=since, present=True, clean_since=None, probation=True
        )
    if not before.probation:
        return seen
    clean_since = now if before.clean_since is None else before.clean_since
    over = now - clean_since >= probation_ms
    return replace(
        seen, present=False, clean_since=None if over else clean_since, probation=not over
    )


def vouched(health: GpuHealth) -> GpuHealth:
    """An operator says that the GPU is well. A fault that is still there will show again."""
    return replace(health, present=False, probation=False, clean_since=None)


def problem_of(health: GpuHealth, probation_ms: int) -> str | None:
    """Why the GPU takes no new job; None: its health does not keep it."""
    if not health.probation:
        return None
    if health.present or health.clean_since is None:
        return health.fault
    until = utc_text(health.clean_since + probation_ms)
    return f"on probation until {until} after: {health.fault}"


def hardware_cause(
    placement: Placement,
    started_at: int | None,
    node_id: NodeId,
    healths: Mapping[int, GpuHealth],
    name: Callable[[int], str] = str,
) -> str | None:
    """The fault of one of a job's GPUs since it started, for a job that failed.

    `healths` are those of the GPUs of one node, by index; `name` is what they are called.
    """
    parts = (part for part in placement.parts() if part.node_id == node_id)
    for share in (share for part in parts for share in part.shares):
        health = healths.get(share.gpu_index)
        if health is None or health.fault is None:
            continue
        if health.fault_at >= (started_at or 0):
            return f"GPU {name(share.gpu_index)}: {health.fault}"
    return None


def xid_text(xid: int) -> str:
    meaning = FATAL_XIDS.get(xid) or APPLICATION_XIDS.get(xid)
    return f"Xid {xid}, {meaning}" if meaning else f"Xid {xid}"


def _fault(before: GpuHealth, signs: Signs) -> str | None:
    xid = _new_xid(before, signs)
    if signs.lost is not None:
        # What made it fall off says more than that it is gone, and is told only once.
        if xid is not None:
            return f"{xid}; {signs.lost}"
        known = before.fault or ""
        return known if before.present and known.endswith(signs.lost) else signs.lost
    if signs.remap_failed:
        return "memory rows could not be remapped: the GPU must be replaced"
    if signs.remap_pending:
        return "memory rows wait to be remapped: the GPU must be reset"
    return xid or _new_ecc(before, signs)


def _new_xid(before: GpuHealth, signs: Signs) -> str | None:
    # A reader that began anew counts from zero.
    since = before.xid_seen if signs.xid_count >= before.xid_seen else 0
    count = min(signs.xid_count - since, len(signs.xids))
    fatal = _first_fatal(signs.xids[len(signs.xids) - count :])
    return None if fatal is None else xid_text(fatal)


def _new_ecc(before: GpuHealth, signs: Signs) -> str | None:
    count = signs.ecc_uncorrected
    if count is None or count <= before.ecc_seen:
        return None
    return f"memory errors that could not be corrected: {count}"


def _first_fatal(xids: Iterable[int]) -> int | None:
    return next((xid for xid in xids if xid in FATAL_XIDS), None)
