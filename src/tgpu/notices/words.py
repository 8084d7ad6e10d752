"""Turns events of the feed into notices. Pure."""

from collections.abc import Collection, Mapping
from typing import Final

from tgpu.core.accounting.sla import missed_deadline
from tgpu.core.model.ids import TenantId
from tgpu.core.model.lifecycle import TERMINAL
from tgpu.core.model.units import SECOND
from tgpu.notices.notice import Notice, NoticeKind
from tgpu.service.accounting.budget_enforcement import BudgetNotice
from tgpu.service.feed.feed_event import FeedEvent
from tgpu.store.api import StoredJob
from tgpu.text.durations import duration_text
from tgpu.text.gpu_names import gpu_name
from tgpu.text.instants import calendar_text
from tgpu.text.masking import mask_text

# The first is what it is above all; it goes to every target that wants one of them.
_KINDS: Final[Mapping[str, tuple[NoticeKind, ...]]] = {
    "job_started": (NoticeKind.START,),
    "job_completed": (NoticeKind.END, NoticeKind.DEADLINE),
    "job_cancelled": (NoticeKind.END, NoticeKind.DEADLINE),
    "job_failed": (NoticeKind.FAILURE, NoticeKind.END, NoticeKind.DEADLINE),
    "job_preempted": (NoticeKind.PREEMPTION,),
    "job_noted": (NoticeKind.IDLE,),
}
_DID: Final = {
    "job_started": "started",
    "job_completed": "completed",
    "job_cancelled": "was cancelled",
    "job_failed": "failed",
    "job_preempted": "was preempted and is back in the queue",
}
_LONGEST: Final = 500  # characters of a cause or a name

Problems = Mapping[str, str]  # of the GPUs of a node, by index


def job_kinds(event: FeedEvent) -> tuple[NoticeKind, ...]:
    """The kinds of notice that an event may become, before its job is looked up."""
    kinds = _KINDS.get(event.kind, ())
    if event.kind == "job_noted" and not str(event.data.get("cause", "")).startswith("idle"):
        return ()
    return kinds


def job_notice(event: FeedEvent, job: StoredJob | None, wanted: Collection[str]) -> Notice | None:
    """The notice of an event for a target that wants these kinds; None: none."""
    late = job is not None and event.state in TERMINAL and missed_deadline(job.job, job.progress)
    kinds = [kind for kind in job_kinds(event) if kind is not NoticeKind.DEADLINE or late]
    kind = next((each for each in kinds if each in wanted), None)
    if kind is None:
        return None
    cause = _plain(event.data.get("cause"))
    named = _plain(job.detail.name) if job is not None else ""
    who = f"job {event.job_id}" + (f" ({named})" if named else "")
    did = "leaves its GPUs idle" if kind is NoticeKind.IDLE else _DID[event.kind]
    title = f"{who} {did}" + (", after its deadline" if late else "")
    return Notice(
        notice_id=f"{event.seq}-{event.at}",
        kind=kind,
        at=event.at,
        title=title,
        text=_lines(event, job, cause),
        job_id=event.job_id,
        name=named,
        user="" if job is None else job.detail.user,
        tenant_id=event.tenant_id,
        state=None if event.state is None else event.state.value,
        exit_code=_number(event.data.get("exit_code")),
        cause=cause or None,
        failure=_plain(event.data.get("failure")) or None,
        node=_plain(event.data.get("node")) or None,
        gpus=_indexes(event.data.get("gpus")),
        gpu_names=_names(event),
    )


def gpu_notice(event: FeedEvent, before: Problems) -> Notice | None:
    """What changed in the health of a node's GPUs since `before`."""
    now = problems_in(event)
    node = _plain(event.data.get("node"))
    worse = [index for index in now if before.get(index) != now[index]]
    better = [index for index in before if index not in now]
    if not worse and not better:
        return None
    lines = [f"GPU {index}: {_plain(now[index])}" for index in _sorted(worse)]
    lines += [
        f"GPU {index}: healthy again (was: {_plain(before[index])})" for index in _sorted(better)
    ]
    indexes = _sorted(worse or better)
    which = f"GPU {', '.join(indexes)} of {node}"
    title = f"{which} has a problem" if worse else f"{which} is healthy again"
    return Notice(
        notice_id=f"{event.seq}-{event.at}",
        kind=NoticeKind.GPU,
        at=event.at,
        title=title
        if len(indexes) == 1
        else title.replace("has a", "have a").replace(" is ", " are "),
        text="\n".join([*lines, f"at {calendar_text(event.at)} UTC"]),
        cause=_plain(now[indexes[0]]) if worse else None,
        node=node,
        gpus=tuple(int(index) for index in indexes),
        gpu_names=tuple(gpu_name(node, int(index)) for index in indexes),
    )


def problems_in(event: FeedEvent) -> Problems:
    found = event.data.get("problems")
    return found if isinstance(found, dict) else {}


def budget_notice(tenant_id: TenantId, word: BudgetNotice, at: int) -> Notice:
    used_up = word.percent >= 100
    did = "has used up its budget" if used_up else f"has used {word.percent} % of its budget"
    of = "in all" if word.window == "total" else f"of this {word.window}"
    return Notice(
        notice_id=f"budget-{tenant_id}-{word.since}-{word.budget}-{word.percent}",
        kind=NoticeKind.BUDGET,
        at=at,
        title=f"tenant {tenant_id} {did}",
        text=f"Tenant {tenant_id} {did} {of}. See: tgpu budget {tenant_id}",
        tenant_id=tenant_id,
    )


def trial_notice(name: str, at: int) -> Notice:
    return Notice(
        notice_id=f"test-{at}",
        kind=NoticeKind.TEST,
        at=at,
        title="test notice",
        text=f"The notice {name!r} works: this is what its messages look like.",
    )


def _lines(event: FeedEvent, job: StoredJob | None, cause: str) -> str:
    rows = [
        ("tenant", _plain(event.tenant_id)),
        ("user", "" if job is None else _plain(job.detail.user)),
        *_place(event),
        ("attempt", _plain(event.data.get("attempt"))),
        ("exit code", _plain(event.data.get("exit_code"))),
        ("signal", _plain(event.data.get("signal"))),
        ("failure", _plain(event.data.get("failure"))),
        ("cause", cause),
        ("preempted for", "" if event.names_another else _plain(event.data.get("gives_way_to"))),
        ("ran", _ran(event, job)),
        ("at", f"{calendar_text(event.at)} UTC"),
    ]
    facts = [f"{name}: {value}" for name, value in rows if value]
    return "\n".join([*facts, f"see: tgpu show {event.job_id}"])


def _place(event: FeedEvent) -> list[tuple[str, str]]:
    """Its node and the GPUs there; of a gang over several nodes, all GPUs by name."""
    names, node = _names(event), _plain(event.data.get("node"))
    indexes = _indexes(event.data.get("gpus"))
    if len(names) > len(indexes):
        return [("GPUs", ", ".join(names))]
    return [("node", node), ("GPUs", ", ".join(map(str, indexes)))]


def _names(event: FeedEvent) -> tuple[str, ...]:
    found = event.data.get("gpu_names")
    return tuple(_plain(name) for name in found) if isinstance(found, list) else ()


def _ran(event: FeedEvent, job: StoredJob | None) -> str:
    if job is None or event.state not in TERMINAL or job.progress.started_at is None:
        return ""
    return duration_text((event.at - job.progress.started_at) / SECOND, padded=False)


def _plain(value: object) -> str:
    """A value as one line of printable text: it came from a user, and goes into headers too."""
    text = "" if value is None else mask_text(str(value))
    clean = "".join(char if char.isprintable() else " " for char in text).strip()
    return clean if len(clean) <= _LONGEST else clean[: _LONGEST - 1] + "…"


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _indexes(value: object) -> tuple[int, ...]:
    return (
        tuple(index for index in value if isinstance(index, int)) if isinstance(value, list) else ()
    )


def _sorted(indexes: list[str]) -> list[str]:
    return sorted(indexes, key=lambda index: (len(index), index))
