"""Why an attempt failed: the kind of failure, and the log line that shows it.

From facts that others gathered: how it exited, what its GPUs had, the end of its log, whom the
kernel killed. A log proves only what its own program did: it never makes a failure the machine's.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Fault(StrEnum):
    USER_ERROR = "user_error"
    CUDA_OUT_OF_MEMORY = "cuda_out_of_memory"
    HOST_OUT_OF_MEMORY = "host_out_of_memory"
    XID = "xid"
    LOST_GPU = "lost_gpu"  # or one that broke in another way than by an Xid
    TIME_LIMIT = "time_limit"
    PREEMPTED = "preempted"
    NODE = "node"  # the machine, the engine: nobody saw how it ended, or it could not be started
    EVICTED = "evicted"  # the engine took its place away, for reasons of its own
    IMAGE = "image"  # the container image it names cannot be had
    REFUSED = "refused"  # the engine does not let it run: a quota or a rule of its own


class Blame(StrEnum):
    """Whose doing a fault is. It decides what another try costs."""

    INFRASTRUCTURE = "infrastructure"  # another try is free
    USER = "user"  # another try is one of `--retries`
    POLICY = "policy"  # somebody's rule ended it: it is not tried again for that


BLAME: Final = MappingProxyType(
    {
        Fault.USER_ERROR: Blame.USER,
        Fault.CUDA_OUT_OF_MEMORY: Blame.USER,
        Fault.HOST_OUT_OF_MEMORY: Blame.USER,
        Fault.XID: Blame.INFRASTRUCTURE,
        Fault.LOST_GPU: Blame.INFRASTRUCTURE,
        Fault.TIME_LIMIT: Blame.POLICY,
        Fault.PREEMPTED: Blame.POLICY,  # and requeued by who preempts it
        Fault.NODE: Blame.INFRASTRUCTURE,
        Fault.EVICTED: Blame.INFRASTRUCTURE,
        Fault.IMAGE: Blame.USER,
        Fault.REFUSED: Blame.POLICY,
    }
)


@dataclass(frozen=True, slots=True)
class KernelKill:
    """A process that the kernel ended for want of memory."""

    pid: int
    ago_ms: int  # before the attempt's end was seen
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was found about an attempt that failed; nothing of it need be there."""

    log_tail: str = ""
    kills: tuple[KernelKill, ...] = ()  # oldest first
    memory_limit_bytes: int | None = None  # that it was ended for reaching


NO_EVIDENCE: Final = Evidence()


@dataclass(frozen=True, slots=True)
class Finding:
    fault: Fault
    detail: str = ""  # the line that tells; "" where there is none


_LONGEST_DETAIL: Final = 200
_SOME_KILL: Final = "the kernel ended a process because memory ran out"
_KILLED: Final = 137  # 128 + SIGKILL, as a shell reports a child that was killed
# A kill this long before the end was seen may have been a child's; earlier ones were others'.
_RECENT_MS: Final = 15_000

# As PyTorch, TensorFlow, JAX, cuBLAS, CuPy, llama.cpp and the CUDA libraries themselves say it.
_CUDA_MEMORY: Final = re.compile(
    r"CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
    r"|CUDA error: out of memory|cudaMalloc failed: out of memory"
    r"|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED"
    r"|RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate)"
    r"|(?i:OOM when allocating tensor).*GPU|cupy\.cuda\.memory\.OutOfMemoryError"
)
_HOST_MEMORY: Final = re.compile(
    r"\bMemoryError\b|std::bad_alloc|[Cc]annot allocate memory|not enough memory: you tried"
    r"|DefaultCPUAllocator: can't allocate memory|DataLoader worker .* killed by signal: Killed"
    r"|java\.lang\.OutOfMemoryError|oom-kill event"
)
_EXCEPTION: Final = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b(?::.*)?")
_TOLD_WHOLE: Final = frozenset(
    {"ModuleNotFoundError", "ImportError", "NameError", "SyntaxError", "FileNotFoundError"}
)
_TRACEBACK: Final = "Traceback (most recent call last)"


def of_exit(
    exit_code: int | None, pid: int | None, hardware: str | None, evidence: Evidence
) -> Finding:
    """Of an attempt that ended by itself, and not well. `hardware` is what its GPUs had."""
    if hardware is not None:
        return of_hardware(hardware)
    if evidence.memory_limit_bytes is not None:
        limit = evidence.memory_limit_bytes >> 20
        return Finding(Fault.HOST_OUT_OF_MEMORY, f"the whole job may use {limit} MiB")
    kill = _kill(exit_code, pid, evidence.kills)
    if kill is not None:
        # A line about another process may be about another tenant's: it is not quoted.
        text = _short(kill.text) if kill.pid == pid else _SOME_KILL
        return Finding(Fault.HOST_OUT_OF_MEMORY, text)
    lines = evidence.log_tail.splitlines()
    for line in reversed(lines):
        if _CUDA_MEMORY.search(line):
            return Finding(Fault.CUDA_OUT_OF_MEMORY, _short(line))
        if _HOST_MEMORY.search(line):
            return Finding(Fault.HOST_OUT_OF_MEMORY, _short(line))
    return Finding(Fault.USER_ERROR, _exception(lines))


def of_hardware(cause: str) -> Finding:
    return Finding(Fault.XID if "Xid" in cause else Fault.LOST_GPU, cause)


_SIGNALS: Final = {
    1: "HUP",
    2: "INT",
    3: "QUIT",
    4: "ILL",
    6: "ABRT",
    7: "BUS",
    8: "FPE",
    9: "KILL",
    10: "USR1",
    11: "SEGV",
    12: "USR2",
    13: "PIPE",
    14: "ALRM",
    15: "TERM",
    24: "XCPU",
    25: "XFSZ",
}
_OF_SHELLS: Final = {126: "cannot be executed", 127: "command not found"}


def how_it_ended(exit_code: int | None, signal: int | None) -> str:
    """ "exit code 127 (command not found)", "signal 9 (KILL)": numbers with what they mean."""
    if signal:
        return f"signal {signal}" + (f" ({_SIGNALS[signal]})" if signal in _SIGNALS else "")
    told = f"exit code {exit_code}"
    if exit_code in _OF_SHELLS:
        return f"{told} ({_OF_SHELLS[exit_code]})"
    # What a shell says of a command of its own that a signal has ended.
    inner = (exit_code or 0) - 128
    return f"{told} (signal {inner}, {_SIGNALS[inner]})" if inner in _SIGNALS else told


def sentence(finding: Finding, how: str) -> str:
    """For people: `how` is "exit code 1" or "signal 9 (KILL)"."""
    detail = f": {finding.detail}" if finding.detail else ""
    if finding.fault is not Fault.USER_ERROR:
        how = how.replace(" (", ", ").removesuffix(")")  # it stands in brackets itself
    match finding.fault:
        case Fault.CUDA_OUT_OF_MEMORY:
            return f"out of GPU memory ({how}){detail}"
        case Fault.HOST_OUT_OF_MEMORY:
            return f"out of main memory ({how}){detail}"
        case Fault.XID | Fault.LOST_GPU | Fault.NODE | Fault.EVICTED | Fault.IMAGE | Fault.REFUSED:
            return f"{finding.detail} ({how})" if finding.detail else how
    return how + detail


def _kill(exit_code: int | None, pid: int | None, kills: Iterable[KernelKill]) -> KernelKill | None:
    if exit_code != _KILLED:
        return None
    found = [kill for kill in kills if kill.pid == pid or kill.ago_ms <= _RECENT_MS]
    return found[-1] if found else None


def _exception(lines: list[str]) -> str:
    """The last line of a Python traceback. Without a traceback, a word proves nothing.

    Only the name of most: what an exception says may hold a secret, and causes travel further than
    logs do. The few whose words are names of modules, variables and files are told whole.
    """
    if not any(_TRACEBACK in line for line in lines):
        return ""
    found = (line for line in reversed(lines) if _EXCEPTION.fullmatch(line.strip()))
    text = _short(next(found, ""))
    name = text.partition(":")[0]
    return text if name in _TOLD_WHOLE else name


def _short(line: str) -> str:
    text = "".join(char if char.isprintable() else " " for char in line).strip()
    return text if len(text) <= _LONGEST_DETAIL else text[: _LONGEST_DETAIL - 1] + "…"
