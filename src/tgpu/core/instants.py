"""Instants inside sentences: always in this one form, which readers turn into their own time."""

from datetime import UTC, datetime

from tgpu.core.units import SECOND


def utc_text(at: int) -> str:
    """2026-11-16T20:35:18Z; beyond calendars, as on a manual clock, "second 9007199254740"."""
    try:
        moment = datetime.fromtimestamp(at // SECOND, UTC)
    except (OverflowError, ValueError, OSError):
        return f"second {at // SECOND}"
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
