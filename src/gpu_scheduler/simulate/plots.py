"""Plots as SVG text: lines, bars and a Gantt chart. No scripts, nothing from elsewhere."""

from collections.abc import Callable, Sequence
from html import escape
from math import log10
from typing import Final, NamedTuple

WIDTH: Final = 720
HEIGHT: Final = 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 34

Point = tuple[float, float]


class Line(NamedTuple):
    name: str
    points: Sequence[Point]
    css: str  # the class that colours it


class Axis(NamedTuple):
    """From a value to a place along the axis, and the marks on it."""

    place: Callable[[float], float]  # 0 to 1
    marks: Sequence[tuple[float, str]]


def linear(most: float, text: Callable[[float], str]) -> Axis:
    step = _nice_step(most)
    marks = [(step * n, text(step * n)) for n in range(int(most / step) + 1)] if step else []
    return Axis(lambda value: value / most if most else 0.0, marks)


def logarithmic(least: float, most: float, text: Callable[[float], str]) -> Axis:
    low = log10(max(least, 1e-3))
    high = max(low + 1, log10(max(most, 1e-3)))
    decades = range(int(low) if low == int(low) else int(low) + 1, int(high) + 1)
    marks = [(10.0**power, text(10.0**power)) for power in decades]
    return Axis(lambda value: (log10(max(value, 10**low)) - low) / (high - low), marks)


def line_plot(lines: Sequence[Line], x: Axis, y: Axis, label: str) -> str:
    body = _axes(x, y)
    for line in lines:
        path = " ".join(f"{_x(x.place(a)):.1f},{_y(y.place(b)):.1f}" for a, b in line.points)
        body.append(
            f'<polyline class="{line.css}" points="{path}"><title>{escape(line.name)}</title>'
            "</polyline>"
        )
    return _svg(body, label, HEIGHT)


def bars(rows: Sequence[tuple[str, float, str]], label: str) -> str:
    """One bar a row: its name, how long, and what is written at its end."""
    most = max((value for _, value, _ in rows), default=0) or 1
    height = 22 * len(rows) + 8
    body = []
    for number, (name, value, text) in enumerate(rows):
        top = 4 + 22 * number
        length = (WIDTH - 320) * value / most
        body.append(f'<text x="150" y="{top + 14}" class="name">{escape(name[:22])}</text>')
        body.append(f'<rect class="bar" x="158" y="{top}" width="{length:.1f}" height="17"/>')
        body.append(f'<text x="{164 + length:.1f}" y="{top + 14}">{escape(text)}</text>')
    return _svg(body, label, height)


class Stripe(NamedTuple):
    """A job in a Gantt chart: waits from the first instant, has GPUs in the spans."""

    name: str
    since: float
    spans: Sequence[Point]


def gantt(stripes: Sequence[Stripe], x: Axis, label: str) -> str:
    each = max(0.35, min(6.0, 900 / max(1, len(stripes))))
    height = round(each * len(stripes)) + _TOP + _BOTTOM
    waits, runs = [], []
    for number, stripe in enumerate(stripes):
        middle = _TOP + each * (number + 0.5)
        at = stripe.since
        for since, until in stripe.spans:
            if since > at:
                waits.append(_stroke(x, at, since, middle))
            runs.append(_stroke(x, since, until, middle))
            at = until
    body = [
        f'<path class="waits" stroke-width="{each * 0.4:.2f}" d="{" ".join(waits)}"/>',
        f'<path class="runs" stroke-width="{each * 0.8:.2f}" d="{" ".join(runs)}"/>',
    ]
    for value, text in x.marks:
        if x.place(value) <= 1:
            body.append(
                f'<text class="tick" x="{_x(x.place(value)):.1f}" y="{height - 12}">{text}</text>'
            )
    return _svg(body, label, height)


def _stroke(x: Axis, since: float, until: float, middle: float) -> str:
    # At least a hair, so that short jobs are seen.
    begin, end = _x(x.place(since)), max(_x(x.place(until)), _x(x.place(since)) + 0.3)
    return f"M{begin:.1f} {middle:.1f}H{end:.1f}"


def _axes(x: Axis, y: Axis) -> list[str]:
    body = []
    for value, text in y.marks:
        at = _y(y.place(value))
        body.append(f'<path class="grid" d="M{_LEFT} {at:.1f}H{WIDTH - _RIGHT}"/>')
        body.append(f'<text class="name" x="{_LEFT - 6}" y="{at + 4:.1f}">{escape(text)}</text>')
    for value, text in x.marks:
        if x.place(value) <= 1:
            at = _x(x.place(value))
            body.append(f'<path class="grid" d="M{at:.1f} {_TOP}V{HEIGHT - _BOTTOM}"/>')
            body.append(f'<text class="tick" x="{at:.1f}" y="{HEIGHT - 14}">{escape(text)}</text>')
    return body


def _x(part: float) -> float:
    return _LEFT + part * (WIDTH - _LEFT - _RIGHT)


def _y(part: float) -> float:
    return HEIGHT - _BOTTOM - part * (HEIGHT - _TOP - _BOTTOM)


def _svg(body: Sequence[str], label: str, height: int) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label, quote=True)}">'
        + "".join(body)
        + "</svg>"
    )


def _nice_step(most: float) -> float:
    if most <= 0:
        return 0.0
    power = 10.0 ** int(log10(most) - (1 if most < 1 else 0))
    return next(
        (power * n for n in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if most / (power * n) <= 6), power * 10
    )
