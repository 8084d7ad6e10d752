"""A simulation as one HTML page that needs nothing else: it can be mailed, and opens anywhere."""

from collections.abc import Mapping
from html import escape
from typing import Any, Final

from tgpu.drawing import axes, plots
from tgpu.drawing.page import html_page, table
from tgpu.simulate.result import Result
from tgpu.text.durations import rounded_text
from tgpu.text.plurals import plural

MOST_STRIPES: Final = 3_000


def page(document: Mapping[str, Any], result: Result) -> str:
    """`document` is the report of the result."""
    run = document["run"]
    title = f"{run['trace']} on {run['cluster']}, {run['policy']}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(_what(document))}</p>",
        _table(document["summary"]),
        "<h2>How long jobs took and waited</h2>",
        "<p>The part of all jobs that was over, <span class='key-a'>from submission to end</span>, "
        "or <span class='key-b'>had waited</span>, by then at the latest.</p>",
        _distributions(document["distributions"]),
        "<h2>Use of the GPUs</h2>",
        "<p><span class='key-a'>GPUs in use</span> and <span class='key-b'>free GPUs that the "
        "usual requests cannot use</span> (fragmentation), in percent of all.</p>",
        _use(document),
        "<h2>Jobs that wait</h2>",
        _waiting(document),
        "<h2>Fairness</h2>",
        f"<p>Mean wait by tenant. Jain's index of their mean slowdowns is "
        f"{document['summary']['fairness']:.3f}; 1 means all alike.</p>",
        _fairness(document["tenants"]),
        "<h2>Jobs over time</h2>",
        _gantt(result),
    ]
    return html_page(title, parts)


def _what(document: Mapping[str, Any]) -> str:
    run, found = document["run"], document["summary"]
    skipped = f", {run['skipped']:,} invalid lines left out" if run["skipped"] else ""
    never = f", {found['unfinished']:,} never start" if found["unfinished"] else ""
    jobs = plural(f"{found['jobs']:,}", "job")
    nodes = plural(f"{document['nodes']:,}", "node")
    return (
        f"{jobs}{never}{skipped} on {nodes} with "
        f"{document['gpus']:,} GPUs; backfill {run['backfill']}, placement {run['placement']}, "
        f"time limits {run['limits']}; "
        f"{_settings(run)}. Simulated."
    )


def _settings(run: Mapping[str, Any]) -> str:
    """Which settings, and all of them that decide."""
    values = ", ".join(f"{name} {value}" for name, value in run["settings"].items())
    whose = f"settings of {run['config']}" if run["config"] else "the defaults of the service"
    return f"{whose} ({values})" if values else whose


def _table(found: Mapping[str, Any]) -> str:
    names = (
        ("mean", "mean"),
        ("median", "median"),
        ("p99", "p99"),
        ("p999", "p99.9"),
        ("max", "max"),
    )
    rows = [
        [title, *(rounded_text(found[key][name]) for name, _ in names)]
        for key, title in (
            ("jct_s", "submission to end"),
            ("wait_s", "wait"),
            ("large_wait_s", "wait, more than 8 GPUs"),
        )
    ]
    return (
        table(["", *(title for _, title in names)], rows)
        + f"<p>From the first arrival to the last end {rounded_text(found['makespan_s'])}, "
        f"GPUs in use {found['use_percent']:.1f} %, "
        f"mean bounded slowdown {found['mean_slowdown']:.2f}, "
        f"{found['preemptions']:,} preemptions.</p>"
    )


def _distributions(found: Mapping[str, Any]) -> str:
    lines = [
        plots.Line("submission to end", found["jct_s"], "a"),
        plots.Line("wait", found["wait_s"], "b"),
    ]
    most = max((value for line in lines for value, _ in line.points), default=1.0)
    y = axes.linear(1.0, lambda part: f"{100 * part:.0f} %")
    return plots.line_plot(lines, axes.spans(most), y, "distribution of completion times and waits")


def _use(document: Mapping[str, Any]) -> str:
    samples, gpus = document["samples"], document["gpus"] or 1
    used = [(sample["at_s"], sample["used_gpus"] / gpus) for sample in samples]
    lost = [(sample["at_s"], sample["unusable_gpus"] / gpus) for sample in samples]
    lines = [
        plots.Line("in use", _from_zero(used), "a"),
        plots.Line("unusable", _from_zero(lost), "b"),
    ]
    y = axes.linear(1.0, lambda part: f"{100 * part:.0f} %")
    return plots.line_plot(lines, _time_axis(lines), y, "use of the GPUs over time")


def _waiting(document: Mapping[str, Any]) -> str:
    points = _from_zero([(one["at_s"], float(one["waiting_jobs"])) for one in document["samples"]])
    line = plots.Line("waiting", points, "b")
    most = max((count for _, count in points), default=1.0)
    y = axes.linear(most, lambda n: f"{n:,.0f}", whole=True)
    return plots.line_plot([line], _time_axis([line]), y, "waiting jobs over time")


def _from_zero(points: list[plots.Point]) -> list[plots.Point]:
    first = points[0][0] if points else 0.0
    return [(at - first, value) for at, value in points]


def _time_axis(lines: list[plots.Line]) -> axes.Axis:
    return axes.days(max((at for line in lines for at, _ in line.points), default=1.0))


def _fairness(tenants: list[Mapping[str, Any]]) -> str:
    most = sorted(tenants, key=lambda one: (-one["gpu_hours"], one["tenant"]))[:40]
    rows = [
        (
            one["tenant"],
            one["mean_wait_s"],
            f"{rounded_text(one['mean_wait_s'])}, {plural(format(one['jobs'], ','), 'job')}, "
            f"{one['gpu_hours']:,.0f} GPU-hours",
        )
        for one in most
    ]
    return plots.bars(rows, "mean wait by tenant")


def _gantt(result: Result) -> str:
    shown = [outcome for outcome in result.outcomes if outcome.ended_at is not None][:MOST_STRIPES]
    if not shown:
        return "<p>No job ended.</p>"
    first = shown[0].arrival.job.submitted_at
    stripes = [
        plots.Stripe(
            outcome.arrival.job.job_id,
            (outcome.arrival.job.submitted_at - first) / 1000,
            [((since - first) / 1000, (until - first) / 1000) for since, until in outcome.spans()],
        )
        for outcome in shown
    ]
    line = plots.Line("", [(until, 0.0) for stripe in stripes for _, until in stripe.spans], "a")
    left_out = len(result.outcomes) - len(shown)
    note = f"The first {len(shown):,} jobs by arrival" if left_out > 0 else "All jobs by arrival"
    return (
        f"<p>{note}, one line each: <span class='key-b'>waiting</span>, then "
        "<span class='key-a'>running</span>.</p>"
        + plots.gantt(stripes, _time_axis([line]), "jobs over time")
    )
