"""Kinds of failure, in words."""

from types import MappingProxyType
from typing import Final

CODES: Final = MappingProxyType(
    {
        "user_error": "its own program ended it",
        "cuda_out_of_memory": "it needed more memory than its GPUs have",
        "host_out_of_memory": "it used more memory than the machine has, or than its limit",
        "xid": "its GPU had an error",
        "lost_gpu": "its GPU was lost or broke",
        "time_limit": "it reached its time limit",
        "preempted": "it was preempted for another job",
        "node": "the machine failed, not the job",
        "evicted": "the engine evicted it",
        "image": "its container image is not available",
        "refused": "the engine refused to run it",
    }
)


def failure_text(code: str | None) -> str:
    """ "xid: its GPU had an error"; a code that is not known here stands alone."""
    if code is None:
        return ""
    return f"{code}: {CODES[code]}" if code in CODES else code
