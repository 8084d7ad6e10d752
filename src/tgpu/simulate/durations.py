"""Lengths of time in words that line up: 12 s, 3 min, 2.5 h, 4.1 d."""


def span(seconds: float) -> str:
    if seconds < 1 and seconds > 0:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86_400:,.1f} d"
