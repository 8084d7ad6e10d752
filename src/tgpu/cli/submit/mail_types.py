"""The values of `--mail-type`: ours, and those of Slurm."""

from collections.abc import Sequence
from typing import Final

from tgpu.wire.mail import MAIL_EVENTS

_SLURM: Final = {"begin": "start", "fail": "failure", "failed": "failure", "requeue": "preemption"}


def parse_mail_types(words: Sequence[str]) -> list[str]:
    """Events in our words; ValueError names a word that is none."""
    found: list[str] = []
    for word in words:
        lower = word.lower()
        if lower == "none":
            continue
        meant = MAIL_EVENTS if lower == "all" else (_SLURM.get(lower, lower),)
        for event in meant:
            if event not in MAIL_EVENTS:
                known = ", ".join(MAIL_EVENTS)
                raise ValueError(f"{word!r} must be all, none, or one of {known}")
            if event not in found:
                found.append(event)
    return found
