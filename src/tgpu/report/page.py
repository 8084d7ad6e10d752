"""A report as one HTML page, and its plots one by one for whoever makes pictures of them."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

from tgpu.drawing import axes, plots
from tgpu.drawing.page import cards, html_page, keys, table
from tgpu.drawing.palette import OTHERS
from tgpu.report.collect import AttemptRun, Collected
from tgpu.report.consumers import largest_ids
from tgpu.report.figures import Figures, edges_of, use_by, use_by_gpu
from tgpu.report.plan import Colours, gantt, gpu_rows, user_name
from tgpu.report.tables import amount, jobs_table, money, users_table
from tgpu.simulate.measures import distribution
from tgpu.text.durations import rounded_text
from tgpu.text.instants import calendar_text
from tgpu.text.plurals import plural

_MOST_TENANTS: Final = 40
_HOVERED: Final = 8  # jobs that a title names
_FAULTS: Final[Mapping[str, str]] = {
    "user_error": "the program itself",
    "cuda_out_of_memory": "GPU memory",
    "host_out_of_memory": "main memory",
    "xid": "GPU error (Xid)",
    "lost_gpu": "lost GPU",
    "time_limit": "time limit",
    "preempted": "preempted",
    "node": "the machine",
    "evicted": "evicted by the engine",
    "image": "no container image",
    "refused": "refused by the engine",
}


class ReportPicture(NamedTuple):
    name: str  # of its file, without its end
    title: str
    text: str  # HTML before it
    svg: str  # "" where there is nothing to draw
    keys: Sequence[tuple[str, str]] = ()  # what the colours mean: class and name
    nothing: str = ""  # said instead


def pictures(found: Collected, numbers: Figures) -> list[ReportPicture]:
    colours = Colours.of_tenants(found, numbers)
    use = use_by_gpu(found)
    users = Colours.of_users(found, numbers)
    return [
        _owner_use(found, numbers, colours, "tenant", lambda run: str(run.tenant_id)),
        _owner_use(found, numbers, users, "user", lambda run: user_name(run.user)),
        _gpu_use(found, use),
        _waits(found),
        _gantt(found, use, colours),
        _failures(numbers),
    ]


def page(found: Collected, numbers: Figures, drawn: Sequence[ReportPicture]) -> str:
    since, until = (calendar_text(at, "minutes") for at in (numbers.since, numbers.until))
    title = f"GPUs from {since} to {until}"
    cut = "" if found.is_whole else "<p><b>The journal was cut off: its end is missing.</b></p>"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(_what(numbers))}</p>{cut}",
        cards(_cards(numbers)),
        _tenants(numbers),
        *([f"<h2>Users</h2>{users_table(numbers)}"] if numbers.users else []),
        *([f"<h2>Top consumers</h2>{jobs_table(numbers)}"] if numbers.top_jobs else []),
    ]
    for one in drawn:
        key = keys(one.keys) if one.keys else ""
        shown = f"{one.svg}{key}" if one.svg else f"<p>{escape(one.nothing)}</p>"
        parts += [f"<h2>{escape(one.title)}</h2>", f"<p>{one.text}</p>" if one.text else "", shown]
    parts.append("<p>Times are UTC. In use means that a job had the GPU, however busy it was.</p>")
    return html_page(title, parts)


def _what(numbers: Figures) -> str:
    return (
        f"GPUs: {numbers.gpus:,}. Jobs at the end: {numbers.jobs_running:,} running, "
        f"{numbers.jobs_waiting:,} waiting."
    )


def _cards(numbers: Figures) -> list[tuple[str, str]]:
    idle = numbers.idle_percent
    found = [
        ("jobs submitted", f"{numbers.jobs_submitted:,}"),
        ("completed", f"{numbers.jobs_completed:,}"),
        ("failed", f"{numbers.jobs_failed:,}"),
        ("cancelled", f"{numbers.jobs_cancelled:,}"),
        ("GPU-hours", amount(numbers.gpu_hours)),
        ("idle GPU time", "-" if idle is None else f"{idle:.1f} %"),
        ("mean wait", _span(numbers.mean_wait_s)),
        ("p90 wait", _span(numbers.p90_wait_s)),
    ]
    if numbers.cost is not None:
        found.append(("cost", money(numbers, numbers.cost)))
    if numbers.preemptions:
        found.append(("preemptions", f"{numbers.preemptions:,}"))
    return found


def _tenants(numbers: Figures) -> str:
    if not numbers.tenants:
        return "<p>There were no jobs.</p>"
    priced = numbers.cost is not None
    head = ["tenant", "submitted", "completed", "failed", "cancelled", "GPU-hours"]
    head += [*(["cost"] if priced else []), "mean wait", "p90 wait"]
    rows = [
        [
            str(each.tenant_id),
            *(f"{n:,}" for n in (each.submitted, each.completed, each.failed, each.cancelled)),
            amount(each.gpu_hours),
            *([money(numbers, each.cost or 0)] if priced else []),
            _span(each.mean_wait_s),
            _span(each.p90_wait_s),
        ]
        for each in numbers.tenants[:_MOST_TENANTS]
    ]
    more = len(numbers.tenants) - _MOST_TENANTS
    others = f"<p>And {plural(f'{more:,}', 'tenant')} more.</p>" if more > 0 else ""
    return table(head, rows) + others


def _owner_use(
    found: Collected,
    numbers: Figures,
    colours: Colours,
    kind: str,
    owner: Callable[[AttemptRun], str],
) -> ReportPicture:
    title, name = f"GPUs in use, by {kind}", f"use-by-{kind}"
    if not found.runs:
        return ReportPicture(name, title, "", "", nothing="No job had a GPU.")
    amounts = use_by(found, colours.names, owner)
    css = [*(colours.of(each) for each in colours.names), OTHERS]
    names = [*(_with_jobs(found, colours.names, owner)), "others"]
    layers = [plots.Layer(*each) for each in zip(names, amounts, css, strict=True)]
    most = max((sum(step) for step in zip(*amounts, strict=True)), default=0.0)
    y = axes.linear(max(most, float(numbers.gpus), 1e-3), lambda n: f"{n:g}")
    edges = [edge / 1000 for edge in edges_of(found)]
    svg = plots.stacked(layers, edges, _time(found), y, f"GPUs in use over time, by {kind}")
    return ReportPicture(name, title, "", svg, colours.keys())


def _with_jobs(
    found: Collected, names: Sequence[str], owner: Callable[[AttemptRun], str]
) -> list[str]:
    """Each with the jobs of it that used most, to be read under the pointer."""
    largest = largest_ids(found, owner, _HOVERED + 1)
    told = []
    for name in names:
        ids = [str(job_id) for job_id in largest.get(name, [])]
        more = ", …" if len(ids) > _HOVERED else ""
        told.append(f"{name}: job{'s' * (len(ids) != 1)} {', '.join(ids[:_HOVERED])}{more}")
    return told


def _gpu_use(found: Collected, use: dict[tuple[str, int], list[float]]) -> ReportPicture:
    title, name = "Use of each GPU", "use-by-gpu"
    if not use:
        return ReportPicture(name, title, "", "", nothing="There was no GPU.")
    drawn = gpu_rows(use)
    edges = [edge / 1000 for edge in edges_of(found)]
    svg = plots.heat_map(drawn.rows, edges, _time(found), "use of each GPU over time")
    text = f"The stronger the colour, the larger the share that jobs had. {escape(drawn.note)}"
    return ReportPicture(name, title, text, svg)


def _waits(found: Collected) -> ReportPicture:
    title, name = "How long jobs waited", "waits"
    waits = [wait for each in found.waits_ms.values() for wait in each]
    if not waits:
        return ReportPicture(name, title, "", "", nothing="No job started.")
    points = distribution(waits)
    # To both edges: where nobody waited long, it is all at the left.
    most = max(points[-1][0], 10.0)
    line = plots.Line("wait", [(points[0][0], 0.0), *points, (most, 1.0)], "b")
    y = axes.linear(1.0, lambda part: f"{100 * part:.0f} %")
    svg = plots.line_plot([line], axes.spans(most), y, "distribution of waits")
    text = (
        "Share of started jobs that waited at most this long from submission to the first "
        f"start. Jobs: {len(waits):,}."
    )
    return ReportPicture(name, title, text, svg)


def _gantt(
    found: Collected, use: dict[tuple[str, int], list[float]], colours: Colours
) -> ReportPicture:
    title, name = "Jobs on GPUs", "gantt"
    if not found.runs:
        return ReportPicture(name, title, "", "", nothing="No job had a GPU.")
    drawn = gantt(found, use, colours)
    svg = plots.tracks(drawn.tracks, _time(found), "jobs on GPUs over time")
    text = (
        "Each bar is a job on a GPU, in the colour of its tenant; one that failed ends in "
        f"<span class='key-bad'>red</span>. {escape(drawn.note)}"
    )
    return ReportPicture(name, title, text, svg, colours.keys())


def _failures(numbers: Figures) -> ReportPicture:
    title, name = "Failures by cause", "failures"
    if not numbers.failures:
        return ReportPicture(name, title, "", "", nothing="No attempt failed.")
    rows = [
        (_FAULTS.get(kind, kind), float(count), f"{count:,}") for kind, count in numbers.failures
    ]
    text = "Of attempts: a job that was tried three times may have failed three times."
    return ReportPicture(name, title, text, plots.bars(rows, "failed attempts by cause"))


def _time(found: Collected) -> axes.Axis:
    return axes.dates(found.since / 1000, max(found.until, found.since + 1) / 1000)


def _span(seconds: float | None) -> str:
    return "-" if seconds is None else rounded_text(seconds)
