"""Plots as SVG text. Colours come from the style of the page, by class: see `page.py`."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Final, NamedTuple

from tgpu.drawing.axes import Axis

WIDTH: Final = 720
HEIGHT: Final = 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 34
_NAMES: Final = 110  # width of the names of rows
_LETTER: Final = 6.1  # width of one, of the size that plots have

Point = tuple[float, float]
Place = Callable[[float], float]  # from a part of the axis to a place in the picture


class Line(NamedTuple):
    name: str
    points: Sequence[Point]
    css: str  # the class that colours it


def line_plot(lines: Sequence[Line], x: Axis, y: Axis, label: str) -> str:
    body = _axes(x, y)
    for line in lines:
        path = " ".join(f"{_x(x.place(a)):.1f},{_y(y.place(b)):.1f}" for a, b in line.points)
        body.append(
            f'<polyline class="{line.css}" points="{path}"><title>{escape(line.name)}</title>'
            "</polyline>"
        )
    return _svg(body, label, HEIGHT)


class Layer(NamedTuple):
    """What one of several adds to the whole, in each step of time."""

    name: str
    amounts: Sequence[float]
    css: str


def stacked(layers: Sequence[Layer], edges: Sequence[float], x: Axis, y: Axis, label: str) -> str:
    """Steps between `edges`, one on the other."""
    body = _axes(x, y)
    below = [0.0] * (len(edges) - 1)
    for layer in layers:
        above = [a + b for a, b in zip(below, layer.amounts, strict=True)]
        ahead = _steps(above, edges, x, y)
        back = _steps(below, edges, x, y)[::-1]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in (*ahead, *back))
        body.append(
            f'<path class="area {layer.css}" d="M{path}Z">'
            f"<title>{escape(layer.name)}</title></path>"
        )
        below = above
    return _svg(body, label, HEIGHT)


def bars(rows: Sequence[tuple[str, float, str]], label: str) -> str:
    """One bar a row: its name, how long, and what is written at its end."""
    most = max((value for _, value, _ in rows), default=0) or 1
    widest = max((len(text) for _, _, text in rows), default=0) * _LETTER
    room = max(60.0, WIDTH - 170 - widest)
    body = []
    for number, (name, value, text) in enumerate(rows):
        top = 4 + 22 * number
        length = room * value / most
        body.append(f'<text x="150" y="{top + 13}" class="name">{_cut(name, 23)}</text>')
        body.append(f'<rect class="bar" x="158" y="{top}" width="{length:.1f}" height="17"/>')
        body.append(f'<text x="{164 + length:.1f}" y="{top + 13}">{escape(text)}</text>')
    return _svg(body, label, 22 * len(rows) + 8)


class Stripe(NamedTuple):
    """A job in a Gantt chart: waits from the first instant, has GPUs in the spans."""

    name: str
    since: float
    spans: Sequence[Point]


def gantt(stripes: Sequence[Stripe], x: Axis, label: str) -> str:
    """One line a job, from the first to the last."""
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
        *_verticals(x, height),
        # Not thinner than can be seen: neighbours may then overlap a little.
        f'<path class="waits" stroke-width="{max(0.6, each * 0.4):.2f}" d="{" ".join(waits)}"/>',
        f'<path class="runs" stroke-width="{max(1.0, each * 0.8):.2f}" d="{" ".join(runs)}"/>',
    ]
    return _svg(body, label, height)


class PlotRow(NamedTuple):
    name: str
    amounts: Sequence[float]  # 0 to 1


def heat_map(rows: Sequence[PlotRow], edges: Sequence[float], x: Axis, label: str) -> str:
    """A row each, as dark as it was busy in each step of time."""
    each = _row_height(len(rows))
    height = round(each * len(rows)) + _TOP + _BOTTOM
    body = []
    for number, row in enumerate(rows):
        top = _TOP + each * number
        body.append(_row_name(row.name, top, each))
        body.append(
            f'<rect class="empty" x="{_NAMES}" y="{top:.1f}" width="{WIDTH - _NAMES - _RIGHT}" '
            f'height="{each - 1:.1f}"/>'
        )
        for first, last, level in _runs_of_levels(row.amounts):
            begin, end = _wide(x.place(edges[first])), _wide(x.place(edges[last]))
            body.append(
                f'<rect class="busy" opacity="{level / _LEVELS:.2f}" x="{begin:.1f}" '
                f'y="{top:.1f}" width="{max(0.3, end - begin):.1f}" height="{each - 1:.1f}"/>'
            )
    return _svg([*body, *_marks_below(x, height)], label, height)


class Bar(NamedTuple):
    """A piece of a track: from 0 to 1 of its height, `since` and `until` along the axis."""

    title: str
    since: float
    until: float
    low: float
    high: float
    css: str
    is_bad: bool = False  # did not end well


class Track(NamedTuple):
    name: str
    bars: Sequence[Bar]


def tracks(rows: Sequence[Track], x: Axis, label: str) -> str:
    """A Gantt chart of places: a row each, and who was there when."""
    each = _row_height(len(rows))
    height = round(each * len(rows)) + _TOP + _BOTTOM
    body = _verticals(x, height, _wide)
    for number, row in enumerate(rows):
        top = _TOP + each * number
        body.append(_row_name(row.name, top, each))
        room = each - 2
        for bar in row.bars:
            begin, end = _wide(x.place(bar.since)), _wide(x.place(bar.until))
            y, tall = top + room * (1 - bar.high), max(0.8, room * (bar.high - bar.low))
            body.append(
                f'<rect class="{_piece(end - begin)} {bar.css}" x="{begin:.1f}" y="{y:.1f}" '
                f'width="{max(0.5, end - begin):.1f}" height="{tall:.1f}">'
                f"<title>{escape(bar.title)}</title></rect>"
            )
            if bar.is_bad:
                body.append(
                    f'<rect class="bad" x="{max(begin, end - 1.5):.1f}" y="{y:.1f}" width="1.5" '
                    f'height="{tall:.1f}"/>'
                )
    return _svg(body, label, height)


def framed(svg: str, title: str, names: Sequence[tuple[str, str]]) -> str:
    """A plot that stands alone: with its title above, and what its colours mean below."""
    height = int(svg.split('viewBox="0 0 ', 1)[1].split('"', 1)[0].split()[1])
    lines = _key_lines(names)
    whole = height + _HEAD + 20 * len(lines) + (8 if lines else 0)
    body = [f'<text class="title" x="12" y="24">{escape(title)}</text>']
    body.append(svg.replace("<svg ", f'<svg y="{_HEAD}" width="{WIDTH}" height="{height}" ', 1))
    for number, line in enumerate(lines):
        y = height + _HEAD + 20 * number
        for x, css, name in line:
            body.append(f'<rect class="area {css}" x="{x:.0f}" y="{y}" width="10" height="10"/>')
            body.append(f'<text x="{x + 15:.0f}" y="{y + 9}">{escape(name)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {whole}" width="{WIDTH}" '
        f'height="{whole}">' + "".join(body) + "</svg>"
    )


# -- pieces --------------------------------------------------------------------------------------

_LEVELS: Final = 20
_HEAD: Final = 34  # height of a title


def _key_lines(names: Sequence[tuple[str, str]]) -> list[list[tuple[float, str, str]]]:
    """Places of keys, as many on a line as there is room for."""
    lines: list[list[tuple[float, str, str]]] = []
    x = float(WIDTH)
    for css, name in names:
        width = 32 + len(name) * _LETTER
        if x + width > WIDTH - _RIGHT:
            lines.append([])
            x = 12.0
        lines[-1].append((x, css, name))
        x += width
    return lines


def _runs_of_levels(amounts: Sequence[float]) -> list[tuple[int, int, int]]:
    """Neighbours that look alike as one: from, until, how dark."""
    found: list[tuple[int, int, int]] = []
    for number, amount in enumerate(amounts):
        level = min(_LEVELS, max(1 if amount > 0.0005 else 0, round(amount * _LEVELS)))
        if found and found[-1][1] == number and found[-1][2] == level:
            found[-1] = (found[-1][0], number + 1, level)
        elif level:
            found.append((number, number + 1, level))
    return found


def _piece(width: float) -> str:
    # Neighbours of one colour are told apart by a line, where there is room for one.
    return "piece" if width >= 2 else "area"


def _row_height(rows: int) -> float:
    return max(12.0, min(24.0, 640 / max(1, rows)))


def _row_name(name: str, top: float, each: float) -> str:
    y = top + each / 2 + 3.5
    return f'<text class="name" x="{_NAMES - 6}" y="{y:.1f}">{_cut(name, 17)}</text>'


def _steps(amounts: Sequence[float], edges: Sequence[float], x: Axis, y: Axis) -> list[Point]:
    points = []
    for number, amount in enumerate(amounts):
        level = _y(y.place(amount))
        points += [(_x(x.place(edges[number])), level), (_x(x.place(edges[number + 1])), level)]
    return points


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
    return [*body, *_verticals(x, HEIGHT)]


def _verticals(x: Axis, height: int, place: Place | None = None) -> list[str]:
    place = place or _x
    lines = [
        f'<path class="grid" d="M{place(x.place(value)):.1f} {_TOP}V{height - _BOTTOM}"/>'
        for value, _ in _shown(x)
    ]
    return [*lines, *_marks_below(x, height, place)]


def _marks_below(x: Axis, height: int, place: Place | None = None) -> list[str]:
    place = place or _wide
    return [
        f'<text class="tick" x="{place(x.place(value)):.1f}" y="{height - 14}">'
        f"{escape(text)}</text>"
        for value, text in _shown(x)
    ]


def _shown(x: Axis) -> list[tuple[float, str]]:
    return [(value, text) for value, text in x.marks if -0.001 <= x.place(value) <= 1.001]


def _x(part: float) -> float:
    return _LEFT + part * (WIDTH - _LEFT - _RIGHT)


def _wide(part: float) -> float:
    """The same beside names of rows."""
    return _NAMES + part * (WIDTH - _NAMES - _RIGHT)


def _y(part: float) -> float:
    return HEIGHT - _BOTTOM - part * (HEIGHT - _TOP - _BOTTOM)


def _cut(text: str, most: int) -> str:
    return escape(text if len(text) <= most else text[: most - 1] + "…")


def _svg(body: Sequence[str], label: str, height: int) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(label, quote=True)}">' + "".join(body) + "</svg>"
    )
