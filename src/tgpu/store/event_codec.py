"""Events as the journal has them, in JSON, and back.

The values inside of them are written by `codec`.
"""

from collections.abc import Mapping
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final, assert_never

import msgspec

from tgpu.core.errors import InvariantBroken
from tgpu.core.model.events import (
    BookingRemoved,
    BookingSet,
    ClockStepped,
    Event,
    JobChanged,
    JobMoved,
    JobsSubmitted,
    MixSet,
    NodeSet,
    QueueRemoved,
    QueueSet,
    SettingsSet,
    TenantSet,
    TimePassed,
    UsageAdded,
)
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import NO_DETAIL, Detail, Job
from tgpu.store import codec
from tgpu.store.codec import json_text

KINDS: Final[dict[str, type[Event]]] = {
    "jobs_submitted": JobsSubmitted,
    "job_moved": JobMoved,
    "job_changed": JobChanged,
    "tenant_set": TenantSet,
    "queue_set": QueueSet,
    "queue_removed": QueueRemoved,
    "usage_added": UsageAdded,
    "node_set": NodeSet,
    "booking_set": BookingSet,
    "booking_removed": BookingRemoved,
    "settings_set": SettingsSet,
    "mix_set": MixSet,
    "clock_stepped": ClockStepped,
}

Setting = (
    TenantSet
    | QueueSet
    | QueueRemoved
    | UsageAdded
    | NodeSet
    | BookingSet
    | BookingRemoved
    | SettingsSet
    | MixSet
    | ClockStepped
    | TimePassed
)

_BY_SOMEBODY: Final = (TenantSet, QueueSet, QueueRemoved, NodeSet, BookingSet, BookingRemoved)


class _Described(msgspec.Struct):
    job_id: JobId
    detail: Detail = NO_DETAIL


class _Submission(msgspec.Struct):
    jobs: list[_Described]
    held: list[JobId] = []


_SUBMISSION: Final = msgspec.json.Decoder(_Submission)
_EVENTS: Final[dict[str, msgspec.json.Decoder[Event]]] = {
    kind: msgspec.json.Decoder(cls) for kind, cls in KINDS.items()
}


_quoted: Final = lru_cache(1024)(encode_basestring)


# -- writing -----------------------------------------------------------------------------------


def event_text(event: Event, details: Mapping[JobId, Detail]) -> str:
    """An event as the journal has it; a submission carries the details of its jobs."""
    if isinstance(event, JobsSubmitted):
        jobs = [_job_text(job, details.get(job.job_id, NO_DETAIL)) for job in event.jobs]
        return submission_text(event.at, jobs, sorted(event.held))
    if isinstance(event, JobMoved):
        return moved_text(event, codec.progress_text(event.progress))
    if isinstance(event, JobChanged):
        return changed_text(event, codec.facts_text(event.job))
    by = _by(event.by) if isinstance(event, _BY_SOMEBODY) else ""
    return f'{{"at":{event.at}{by},{_setting_text(event)}}}'


def _setting_text(event: Setting) -> str:
    match event:
        case TenantSet():
            return f'"tenant":{codec.tenant_text(event.tenant)}'
        case QueueSet():
            return f'"queue":{codec.queue_text(event.queue)}'
        case QueueRemoved():
            return f'"tenant_id":{_quoted(event.tenant_id)},"name":{_quoted(event.name)}'
        case UsageAdded():
            names = f'"tenant_id":{_quoted(event.tenant_id)},"queue":{_quoted(event.queue)}'
            return f'{names},"usage":{codec.usage_text(event.usage)}'
        case NodeSet():
            return f'"node":{codec.node_text(event.node)}'
        case _:
            return _rare_text(event)


def _rare_text(
    event: BookingSet | BookingRemoved | SettingsSet | MixSet | ClockStepped | TimePassed,
) -> str:
    match event:
        case TimePassed():
            raise InvariantBroken("TimePassed is applied only, never recorded")
        case MixSet():
            return f'"mix":{json_text(event.mix)}'
        case SettingsSet():
            return f'"version":{json_text(event.version)},"values":{json_text(event.values)}'
        case BookingSet():
            return f'"booking":{json_text(event.booking)}'
        case BookingRemoved():
            return f'"booking_id":{json_text(event.booking_id)},"cause":{json_text(event.cause)}'
        case ClockStepped():
            moved = ",".join(f"[{_quoted(j)},{codec.progress_text(p)}]" for j, p in event.moved)
            return f'"by":{event.by},"moved":[{moved}]'
        case _:
            assert_never(event)


def _job_text(job: Job, detail: Detail) -> str:
    return submitted_job_text(job, codec.facts_text(job), detail, codec.detail_text(detail))


def kind_of(event: Event) -> str:
    for kind, cls in KINDS.items():
        if isinstance(event, cls):
            return kind
    raise InvariantBroken(f"{type(event).__name__} is applied only, never recorded")


def job_of(event: Event) -> JobId | None:
    """The one job an event is about; None where it is about several or none."""
    if isinstance(event, JobMoved):
        return event.job_id
    if isinstance(event, JobChanged):
        return event.job.job_id
    if isinstance(event, JobsSubmitted) and len(event.jobs) == 1:
        return event.jobs[0].job_id
    return None


def submitted_job_text(job: Job, facts: str, detail: Detail, detail_text: str) -> str:
    """A job inside its submission: one flat object, made from texts that were made before."""
    if detail is not NO_DETAIL:
        facts = f'{facts[:-1]},"detail":{_whole_detail(detail, detail_text)}}}'
    # 10,000 times in a bulk: the slice drops the brace that the facts begin with.
    return (
        f'{{"job_id":{encode_basestring(job.job_id)},"tenant_id":{_quoted(job.tenant_id)}'
        f',"submitted_at":{job.submitted_at}{_nonce_text(job.nonce)},{facts[1:]}'
    )


@lru_cache(64)
def _nonce_text(nonce: str) -> str:
    return f',"nonce":{encode_basestring(nonce)}' if nonce else ""


def _whole_detail(detail: Detail, text: str) -> str:
    names = f'"name":{encode_basestring(detail.name)},"user":{encode_basestring(detail.user)}'
    return f"{{{names}}}" if text == "{}" else f"{{{names},{text[1:]}"


def submission_text(at: int, jobs: list[str], held: list[JobId]) -> str:
    on_hold = f',"held":{json_text(held)}' if held else ""
    return f'{{"at":{at},"jobs":[{",".join(jobs)}]{on_hold}}}'


def moved_text(event: JobMoved, progress: str) -> str:
    return (
        f'{{"at":{event.at},"job_id":{encode_basestring(event.job_id)}'
        f',"move":"{event.move.value}"{_by(event.by)},"progress":{progress}}}'
    )


def changed_text(event: JobChanged, facts: str) -> str:
    job = submitted_job_text(event.job, facts, NO_DETAIL, "")
    name = "" if event.name is None else f',"name":{encode_basestring(event.name)}'
    changes = f',"changes":{json_text(event.changes)}' if event.changes else ""
    return f'{{"at":{event.at}{_by(event.by)},"job":{job}{name}{changes}}}'


def _by(name: str) -> str:
    return f',"by":{encode_basestring(name)}' if name else ""


# -- reading -----------------------------------------------------------------------------------


def decode_event(kind: str, payload: bytes) -> Event:
    return _EVENTS[kind].decode(payload)


def decode_details(payload: bytes) -> dict[JobId, Detail]:
    """The details inside a `jobs_submitted` row, of jobs that have any."""
    jobs = _SUBMISSION.decode(payload).jobs
    return {job.job_id: job.detail for job in jobs if job.detail != NO_DETAIL}


def decode_held(payload: str) -> list[JobId]:
    return _SUBMISSION.decode(payload).held
