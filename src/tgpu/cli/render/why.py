"""Why a job waits, for reading: the reason, the blockers, when it starts, and what would start
it."""

import textwrap
from typing import Final

from tgpu.cli.render.estimate import start_text
from tgpu.cli.render.grid import Cell, Column, Grid, Line, clean, lay_out
from tgpu.cli.render.words import index_ranges, moment_text, number_text, plural, sentence_text
from tgpu.text.gpu_names import compact_text
from tgpu.wire.v1 import AheadModel, BlockerModel, WhyAnswer

_COLUMNS: Final = (
    Column("  BLOCKED BY", least=8),
    Column("TENANT", least=6, leave_out=2),
    Column("USER", least=6, leave_out=3),
    Column("GPUS", right=True),
    Column("ON", least=6, leave_out=1),
    Column("ENDS BY", least=10),
)
_LABEL: Final = 14  # as wide as the widest of them, with a gap


def why_lines(answer: WhyAnswer, now_ms: int, width: int | None = None) -> list[Line]:
    """All but the command to go on with, which must not be cut: see `next_line`."""
    lines = _reason(answer, width)
    if answer.blockers:
        lines += lay_out(_blockers(answer, now_ms), width)
        more = answer.blocker_count - len(answer.blockers)
        if more > 0:
            lines.append((Cell(f"  and {more} more"),))
    facts = []
    if answer.ahead is not None and answer.ahead.count:
        facts.append(("before it", _ahead(answer.ahead)))
    if answer.estimate is not None:
        facts.append(("starts", start_text(answer.estimate, now_ms)))
    elif answer.starts_by:
        facts.append(("starts", f"at the latest {moment_text(answer.starts_by, now_ms)}"))
    if answer.change is not None:
        facts.append(("what helps", sentence_text(answer.change.sentence)))
    lines += [(Cell(f"  {label:<{_LABEL - 2}}", "bold"), Cell(text)) for label, text in facts]
    return lines


def next_line(answer: WhyAnswer) -> str:
    """The command that changes something, or at least shows more; "" where there is none."""
    command = answer.change.command if answer.change is not None else ""
    command = clean(command or answer.reason.remedy)
    return f"  next: {command}" if command else ""


def _reason(answer: WhyAnswer, width: int | None) -> list[Line]:
    message = sentence_text(answer.reason.message)
    # A job that does not wait has its state for a reason, and a sentence of its own.
    if answer.reason.code != answer.state and not message.startswith("waits "):
        message = f"waits: {message}"
    head = f"job {clean(answer.job_id)} "
    if width is None:
        return [(Cell(head, "bold"), Cell(message))]
    wrapped = textwrap.wrap(message, max(20, width - 4), initial_indent=" " * len(head))
    first, rest = wrapped[0][len(head) :], wrapped[1:]
    return [(Cell(head, "bold"), Cell(first)), *((Cell(f"    {line}"),) for line in rest)]


def _blockers(answer: WhyAnswer, now_ms: int) -> Grid:
    tenants = {one.tenant_id for one in answer.blockers} - {"default"}
    users = {one.user for one in answer.blockers} - {""}
    return Grid(
        _COLUMNS,
        tuple(
            (
                Cell("  " + (f"job {clean(one.job_id)}" if one.job_id else "another's")),
                Cell(clean(one.tenant_id or "") if tenants else ""),
                Cell(clean(one.user or "") if users else ""),
                Cell(number_text(one.gpu_count)),
                Cell(blocker_place(one) or "waits itself"),
                Cell(_end(one, now_ms)),
            )
            for one in answer.blockers
        ),
    )


def blocker_place(one: BlockerModel) -> str:
    """Where a job in the way is; empty where it waits itself."""
    if not one.node:
        return ""
    if len(one.gpu_names) > len(one.gpus):  # a gang, with workers on other nodes too
        return f"GPU {clean(compact_text(one.gpu_names))}"
    return f"GPU {index_ranges(one.gpus)} of {clean(one.node)}" if one.gpus else clean(one.node)


def _end(one: BlockerModel, now_ms: int) -> str:
    text = "no time limit" if one.node else ""
    if one.ends_by:
        text = moment_text(one.ends_by, now_ms)
    return f"{text} (paused)" if one.paused else text


def _ahead(ahead: AheadModel) -> str:
    first = ", ".join(clean(job_id) for job_id in ahead.first)
    if not first:
        return plural(ahead.count, "job")
    more = ", …" if ahead.count > len(ahead.first) else ""
    return f"{plural(ahead.count, 'job')}: {first}{more}"
