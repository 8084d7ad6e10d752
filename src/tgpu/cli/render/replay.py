"""A past cycle for reading: what started, why others waited, and whether that agrees with the
record."""

from typing import Final

from tgpu.cli.render.grid import Cell, Column, Grid, Line, clean, facts, lay_out
from tgpu.cli.render.why import blocker_place
from tgpu.cli.render.words import number_text, plural, sentence_text
from tgpu.text.durations import duration_text
from tgpu.text.instants import local_text
from tgpu.wire.replay_v1 import ReplayAnswer, ReplayJob, ReplayOfJob, ReplayPassage

_SHOWN: Final = 8  # ids in one line
_NAMES: Final = {
    "scheduler.policy": "policy",
    "scheduler.backfill": "backfill",
    "scheduler.placement": "placement",
    "scheduler.enable_preemption": "preemption",
}


def replay_lines(answer: ReplayAnswer, width: int | None) -> list[Line]:
    lines = [*facts(_head(answer))]
    if answer.job is not None:
        lines += [(Cell(""),), *_job_lines(answer, answer.job)]
    lines += [(Cell(""),), *_starts(answer, width)]
    if answer.preemptions or answer.others:
        lines += [(Cell(""),), *lay_out(_others(answer), width)]
    if answer.waits or answer.untold:
        lines += [(Cell(""),), *_waits(answer, width)]
    if answer.differences:
        lines += [(Cell(""),), *lay_out(_differences(answer), width)]
    return lines


def _head(answer: ReplayAnswer) -> list[tuple[str, str]]:
    settings = ", ".join(
        f"{_NAMES.get(name, name)} {_value(value)}" for name, value in answer.settings.items()
    )
    source = "" if answer.settings_recorded else " (not recorded for that time)"
    record = "no cycle decided anything here; this is what one would have decided"
    if answer.cycle_seq is not None:
        first, last = answer.cycle_seq
        rows = f"event {first}" if first == last else f"events {first} to {last}"
        record = f"agrees with {rows}" if answer.agrees else f"DIFFERS from {rows}, see below"
    return [
        ("moment", f"{local_text(answer.at)}, after event {answer.seq}"),
        ("decided by", f"{clean(settings)}{source}"),
        ("then", f"{plural(answer.running, 'job')} had GPUs, {answer.waiting} waited"),
        ("on record", record),
    ]


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _job_lines(answer: ReplayAnswer, told: ReplayOfJob) -> list[Line]:
    job = told.job
    head = f"job {clean(job.job_id)}"
    if told.starts_here:
        return [(Cell(f"{head} ", "bold"), Cell("started in this cycle"))]
    if told.reason is None:
        return [(Cell(f"{head} ", "bold"), Cell(f"was {clean(told.state)} already"))]
    pairs = [(head, f"did not start: {sentence_text(told.reason.message)}")]
    if told.ahead is not None:
        first = ", ".join(clean(one) for one in told.ahead_first)
        text = f"{plural(told.ahead, 'job')} were ahead of it" + (f": {first}" if first else "")
        pairs.append(
            ("  in the queue", text + (", …" if told.ahead > len(told.ahead_first) else ""))
        )
    for one in told.blockers:
        where = blocker_place(one) or "waited too"
        pairs.append(("  blocked by", f"job {clean(one.job_id or '')}, {where}"))
    if told.passed_by:
        passed = ", ".join(clean(one) for one in told.passed_by[:_SHOWN])
        pairs.append(("  overtaken by", f"{passed}: behind it in the queue, but they fit"))
    elif answer.starts:
        pairs.append(("  overtaken by", "none: the jobs that started were ahead of it"))
    return facts(pairs)


def _starts(answer: ReplayAnswer, width: int | None) -> list[Line]:
    if not answer.starts:
        return [(Cell("nothing started"),)]
    columns = (
        Column("STARTED", least=8),
        Column("TENANT", least=6),
        Column("USER", least=6, leave_out=2),
        Column("PRIO", right=True),
        Column("GPUS", right=True),
        Column("WAITED", right=True),
        Column("BEFORE IT", right=True, leave_out=1),
        Column("ON", least=8),
    )
    rows = tuple(
        (
            *_who(start.job),
            Cell(duration_text(start.waited_s)),
            Cell("" if start.ahead is None else str(start.ahead)),
            Cell(clean(start.on)),
        )
        for start in answer.starts
    )
    return lay_out(Grid(columns, rows), width)


def _who(job: ReplayJob) -> tuple[Cell, Cell, Cell, Cell, Cell]:
    return (
        Cell(clean(job.job_id)),
        Cell(clean(job.tenant_id)),
        Cell(clean(job.user)),
        Cell(str(job.priority)),
        Cell(number_text(job.gpu_count)),
    )


def _others(answer: ReplayAnswer) -> Grid:
    rows = [
        (
            Cell("preempted"),
            Cell(clean(one.job.job_id)),
            Cell(f"for {clean(one.to)}: {sentence_text(one.cause)}"),
        )
        for one in answer.preemptions
    ]
    rows += [(Cell(one.what), Cell(clean(one.id)), Cell(clean(one.text))) for one in answer.others]
    return Grid((Column("ALSO"), Column("ID", least=8), Column("", least=10)), tuple(rows))


def _waits(answer: ReplayAnswer, width: int | None) -> list[Line]:
    columns = (
        Column("WAITED", least=8),
        Column("TENANT", least=6),
        Column("USER", least=6, leave_out=2),
        Column("PRIO", right=True),
        Column("GPUS", right=True),
        Column("ALIKE", right=True, leave_out=1),
        Column("WHY", least=20),
    )
    rows = tuple(
        (
            *_who(one.job),
            Cell(f"+{one.jobs - 1}" if one.jobs > 1 else ""),
            Cell(sentence_text(one.reason.message)),
        )
        for one in answer.waits
    )
    lines = lay_out(Grid(columns, rows), width) if rows else []
    if answer.untold:
        lines.append((Cell(f"and {plural(answer.untold, 'job')} more (--limit)"),))
    return lines


def _differences(answer: ReplayAnswer) -> Grid:
    columns = (
        Column("DIFFERS"),
        Column("ID", least=8),
        Column("ON RECORD", least=10),
        Column("DECIDED HERE", least=10),
    )
    rows = tuple(
        (
            Cell(one.what.replace("_", " "), "bold red"),
            Cell(clean(one.id)),
            Cell(clean(_said(one.recorded))),
            Cell(clean(_said(one.decided))),
        )
        for one in answer.differences
    )
    return Grid(columns, rows)


def _said(text: str | None) -> str:
    return "no" if text is None else text or "yes"


def passage_lines(job: str, found: list[ReplayPassage], width: int | None) -> list[Line]:
    columns = (
        Column("EVENT", right=True),
        Column("AT"),
        Column("STARTED", least=8),
        Column("OVERTOOK IT", least=8),
        Column("WHY NOT IT", least=20),
    )
    rows = tuple(
        (
            Cell(str(one.seq)),
            Cell(local_text(one.at)),
            Cell(_ids(one.started)),
            Cell(_ids(one.passed)),
            Cell(sentence_text(one.reason.message)),
        )
        for one in found
    )
    times = plural(len(found), "time")
    head = f"while job {clean(job)} waited, others started {times}"
    return [(Cell(head),), *lay_out(Grid(columns, rows), width)]


def _ids(ids: list[str]) -> str:
    shown = ", ".join(clean(one) for one in ids[:_SHOWN])
    return shown + (f", … ({len(ids)})" if len(ids) > _SHOWN else "")
