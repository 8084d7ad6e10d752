"""Small pieces of text: counts, commands, how long ago."""

import shlex
from collections.abc import Sequence

from tgpu.cli.render.grid import clean
from tgpu.text.durations import duration_text, roughly_text
from tgpu.text.gpu_names import index_ranges as index_ranges
from tgpu.text.instants import in_local_time, iso_millis, local_text
from tgpu.text.plurals import plural as plural


def number_text(amount: float) -> str:
    """2.0 is "2", 0.5 is "0.5"."""
    return f"{amount:g}"


def gpus_text(count: float, gpu_type: str | None = None) -> str:
    """ "1 GPU", "2 A100", "0.5 GPU"."""
    kind = gpu_type or ("GPU" if count <= 1 else "GPUs")
    return f"{number_text(count)} {clean(kind)}"


def gpu_hours_text(hours: float) -> str:
    """Less than one in more digits: 0.0125, 12.50."""
    return f"{hours:.4f}" if 0 < hours < 1 else f"{hours:.2f}"


def command_text(command: Sequence[str]) -> str:
    """As it could be typed again; of a word of several lines the first. A lease has none."""
    return clean(shlex.join(map(_one_line, command))) if command else "(lease)"


def _one_line(word: str) -> str:
    first, newline, _ = word.strip().partition("\n")
    return f"{first} …" if newline else word


def since(text: str | None, now_ms: int) -> str:
    """How long ago, or "" for never."""
    return duration_text((now_ms - iso_millis(text)) / 1000) if text else ""


def roughly_since(text: str, now_ms: int) -> str:
    """How long ago, in the largest unit only."""
    return roughly_text((now_ms - iso_millis(text)) / 1000)


def between(first: str | None, last: str | None) -> str:
    if not first or not last:
        return ""
    return duration_text((iso_millis(last) - iso_millis(first)) / 1000)


def sentence_text(sentence: str) -> str:
    """A sentence that the service wrote, in the reader's time and harmless to a terminal."""
    return clean(in_local_time(sentence))


def moment_text(text: str, now_ms: int) -> str:
    """An instant that may be to come: local time, and how far off that is."""
    if text.endswith("s"):
        return text  # of the manual clock, beyond calendars
    left = (iso_millis(text) - now_ms) / 1000
    away = f"in {duration_text(left)}" if left >= 0 else f"{duration_text(-left)} ago"
    return f"{local_text(text)} ({away})"


def clock_text(text: str, now_ms: int) -> str:
    """Local time, and how long ago that is."""
    if text.endswith("s"):
        return text
    return f"{local_text(text)} ({since(text, now_ms)} ago)"
