"""When a job will start, in words and in short form for tables."""

from datetime import datetime
from typing import Final

from tgpu.cli.render.grid import Cell, Column, Grid, Line, clean
from tgpu.cli.render.words import plural, sentence_text
from tgpu.text.durations import duration_text, roughly_text
from tgpu.text.instants import iso_millis
from tgpu.wire.estimates_v1 import (
    AccuracyAnswer,
    AccuracyModel,
    EstimateAnswer,
    EstimateModel,
)

_SOON_SECONDS: Final = 5
_HOUR: Final = 3600
_FEW_HOURS: Final = 10 * _HOUR
# How much is known of the jobs before it, by the least sure of them.
_KNOWN: Final = {
    "exact": "from {} of the same command",
    "command": "from {} of the same command with other numbers",
    "name": "from {} of the same name",
    "limit": "from time limits alone",
    "model": "from a model trained on {}",
    "user": "from {} of other jobs of the same user",
    "tenant": "from {} of other jobs of the same tenant",
    "size": "from {} of other jobs of the same size",
    "any": "from {} of other jobs",
    "elapsed": "from their run time so far, longer than any past run",
}
_NOTHING_KNOWN: Final = "some jobs ahead have no runtime estimate"
_FAR_BACK: Final = "far back in the queue, estimated from how fast jobs start"


def starts_in(estimate: EstimateModel | None, now_ms: int) -> str:
    """now, 12m, 12m-40m, <5m; behind all that was looked at >3h. Empty where nobody can tell."""
    if estimate is None:
        return ""
    early, late = _left(estimate.p50, now_ms), _left(estimate.p90, now_ms)
    if estimate.basis == "next_cycle" and late < _SOON_SECONDS:
        return "now"
    first, last = _short(early), _short(late)
    if early < _SOON_SECONDS:
        return f"<{_short(max(late, _SOON_SECONDS))}"
    if estimate.basis == "throughput":
        return f">{first}"
    return first if first == last else f"{first}-{last}"


def start_text(estimate: EstimateModel | None, now_ms: int) -> str:
    """In about 12m, 90% likely within 40m (14:05 to 14:33); from 19 runs of …"""
    if estimate is None:
        return ""
    early, late = _left(estimate.p50, now_ms), _left(estimate.p90, now_ms)
    if estimate.basis == "next_cycle" and late < _SOON_SECONDS:
        return "now"
    clock = _clock(estimate, now_ms)
    told = _span(early, late, is_promised=estimate.latest == estimate.p90)
    told += f" ({clock})" if clock else ""
    if estimate.latest is not None and estimate.latest != estimate.p90:
        told += f", at the latest {latest_text(estimate.latest, now_ms)}"
    known = knowledge(estimate)
    return f"{told}; {known}" if known else told


def _span(early: float, late: float, *, is_promised: bool) -> str:
    """ "now" is for what nothing is in the way of: whatever waits for others is given a span."""
    last = duration_text(max(late, _SOON_SECONDS))
    within = f"at the latest in {last}" if is_promised else f"90% likely within {last}"
    if early < _SOON_SECONDS or (is_promised and duration_text(early) == last):
        return within
    return f"in about {duration_text(early)}, {within}"


def latest_text(text: str, now_ms: int) -> str:
    return f"in {duration_text(_left(text, now_ms))}"


def knowledge(estimate: EstimateModel) -> str:
    """What an estimate rests on; empty where it rests on no run times."""
    if estimate.basis == "throughput":
        return _FAR_BACK
    if estimate.basis == "guessed" or estimate.level == "nothing":
        return _NOTHING_KNOWN
    return _KNOWN.get(estimate.level, "").format(plural(estimate.samples, "run"))


def when_lines(answer: EstimateAnswer) -> list[Line]:
    """What would become of a submission."""
    return [(Cell(clean(line)),) for line in _when(answer)]


def _when(answer: EstimateAnswer) -> list[str]:
    what = "it" if answer.jobs == 1 else f"the first of {plural(answer.jobs, 'job')}"
    if answer.held:
        return [f"{what} would be on hold until it is released"]
    if answer.estimate is None:
        lines = [f"no estimate of when {what} would start"]
    elif answer.starts_now:
        lines = [f"{what} would start now"]
    else:
        now_ms = iso_millis(answer.estimate.as_of)
        lines = [f"{what} would start {start_text(answer.estimate, now_ms)}"]
    if answer.last is not None:
        lines.append(
            f"the last would start {start_text(answer.last, iso_millis(answer.last.as_of))}"
        )
    if answer.sooner:
        lines += ["sooner:", *(f"  {sentence_text(one.sentence)}" for one in answer.sooner)]
    return lines


_COLUMNS: Final = (
    Column("TENANT", least=8),
    Column("QUEUE", least=8),
    Column("JOBS", right=True),
    Column("BY P50", right=True),
    Column("BY P90", right=True),
    Column("MEDIAN ERROR", right=True),
    Column("MEDIAN WAIT", right=True, leave_out=2),
    Column("MEDIAN WINDOW", right=True, leave_out=1),
)


def accuracy_grid(found: AccuracyAnswer) -> Grid:
    rows = [
        (Cell(clean(one.tenant_id)), Cell(clean(one.queue)), *_figures(one)) for one in found.queues
    ]
    if len(rows) != 1:
        rows.append((Cell("all", "bold"), Cell(""), *_figures(found.total)))
    return Grid(_COLUMNS, tuple(rows))


def accuracy_line(found: AccuracyAnswer) -> str:
    span = duration_text(found.days * 86_400)
    if not found.total.jobs:
        return f"no job that waited with an estimate started in the last {span}"
    return (
        f"of the last {span}: half of the jobs should start by the p50 of their first estimate, "
        "nine of ten by the p90"
    )


def _figures(one: AccuracyModel) -> tuple[Cell, ...]:
    spans = (one.median_error_seconds, one.median_wait_seconds, one.median_window_seconds)
    return (
        Cell(f"{one.jobs:,}"),
        Cell(_share(one.before_p50)),
        Cell(_share(one.before_p90)),
        *(Cell(duration_text(span) if one.jobs else "") for span in spans),
    )


def _share(part: float | None) -> str:
    return "" if part is None else f"{part:.1%}"


def _short(seconds: float) -> str:
    """45s, 12m, 1h35m, 14h, 3d: as exact as anybody believes it."""
    is_few_hours = _HOUR <= seconds < _FEW_HOURS
    return duration_text(seconds) if is_few_hours else roughly_text(seconds)


def _left(text: str, now_ms: int) -> float:
    return max(0.0, (iso_millis(text) - now_ms) / 1000)


def _clock(estimate: EstimateModel, now_ms: int) -> str:
    """From when to when by the clock on the wall; empty beyond calendars."""
    texts = (estimate.p50, estimate.p90)
    if any(text.endswith("s") for text in texts):
        return ""
    today = datetime.fromtimestamp(now_ms / 1000).astimezone().date()
    first, last = (datetime.fromisoformat(text).astimezone() for text in texts)
    shapes = ["%H:%M" if at.date() == today else "%Y-%m-%d %H:%M" for at in (first, last)]
    if first.date() == last.date():
        shapes[1] = "%H:%M"
        if f"{first:%H:%M}" == f"{last:%H:%M}":
            return f"{first:{shapes[0]}}"
    return f"{first:{shapes[0]}} to {last:{shapes[1]}}"
