"""Stored values as JSON: without what is default when written, shared where equal when read.

The core's dataclasses stay free of serialisation; everything a store needs to know about their
shape is here.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, replace
from functools import lru_cache
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Final, TypeVar, assert_never

import msgspec

from tgpu.core.errors import InvariantBroken
from tgpu.core.events import (
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
from tgpu.core.ids import DEFAULT_QUEUE, JobId, TenantId
from tgpu.core.job import (
    ANYWHERE,
    NO_DETAIL,
    NO_OPTIONS,
    Array,
    Dependency,
    Detail,
    Job,
    Options,
    Request,
    Where,
)
from tgpu.core.lifecycle import PENDING, PENDING_HELD, Progress
from tgpu.core.node import Gpu, Node
from tgpu.core.tenant import Tenant, TenantQueue
from tgpu.core.usage import Usage

T = TypeVar("T")
K = TypeVar("K")

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

# More distinct values than this are rare, and decoding them again is cheaper than keeping them.
_SHARED_LIMIT: Final = 10_000


def _compact(cls: type[T], without: tuple[str, ...] = ()) -> Callable[[T], msgspec.Struct]:
    """A function that turns one of the core's values into a Struct which is encoded without its
    defaults."""
    columns = [column for column in _columns(cls) if column[0] not in without]
    struct = msgspec.defstruct(cls.__name__, columns, omit_defaults=True, gc=False)
    get = attrgetter(*(column[0] for column in columns))
    return lambda value: struct(*get(value))


def _columns(cls: type[object]) -> Iterator[tuple[str, type] | tuple[str, type, object]]:
    """The fields as `defstruct` wants them."""
    found = msgspec.structs.fields(cls) if issubclass(cls, msgspec.Struct) else fields(cls)  # type: ignore[arg-type]  # every caller gives one or the other
    for field in found:
        is_needed = field.default is MISSING or field.default is msgspec.NODEFAULT
        yield (field.name, object) if is_needed else (field.name, object, field.default)


_where = _compact(Where)
_plain_request = _compact(Request, without=("where",))
_picky_request = _compact(Request)
_options = _compact(Options)
_detail = _compact(Detail, without=("name", "user"))
_progress = _compact(Progress)
_tenant = _compact(Tenant)
_queue = _compact(TenantQueue)
_usage = _compact(Usage)
_gpu = _compact(Gpu)
_node = _compact(Node)
_array = _compact(Array)


class _Facts(msgspec.Struct, omit_defaults=True, gc=False):
    """A job without id, tenant and instant: alike for most jobs of a bulk."""

    priority: int
    request: msgspec.Struct
    queue: str = DEFAULT_QUEUE
    options: msgspec.Struct | None = None
    after: tuple[Dependency, ...] = ()
    array: msgspec.Struct | None = None


class Facts(msgspec.Struct, frozen=True):
    """What `_Facts` decodes to: the core's own values."""

    priority: int
    request: Request
    queue: str = DEFAULT_QUEUE
    options: Options = NO_OPTIONS
    after: tuple[Dependency, ...] = ()
    array: Array | None = None


class _Described(msgspec.Struct):
    job_id: JobId
    detail: Detail = NO_DETAIL


class _Submission(msgspec.Struct):
    jobs: list[_Described]
    held: list[JobId] = []


_ENCODER: Final = msgspec.json.Encoder()
_FACTS: Final = msgspec.json.Decoder(Facts)
_PROGRESS: Final = msgspec.json.Decoder(Progress)
_DETAIL: Final = msgspec.json.Decoder(Detail)
_TENANT: Final = msgspec.json.Decoder(Tenant)
_QUEUE: Final = msgspec.json.Decoder(TenantQueue)
_NODE: Final = msgspec.json.Decoder(Node)
_ENVIRONMENT: Final = msgspec.json.Decoder(dict[str, str])
_SUBMISSION: Final = msgspec.json.Decoder(_Submission)
_EVENTS: Final[dict[str, msgspec.json.Decoder[Event]]] = {
    kind: msgspec.json.Decoder(cls) for kind, cls in KINDS.items()
}


_quoted: Final = lru_cache(1024)(encode_basestring)


def _text(value: object) -> str:
    return _ENCODER.encode(value).decode()


# -- writing -----------------------------------------------------------------------------------


def _request(request: Request) -> msgspec.Struct:
    if request.where is ANYWHERE or request.where == ANYWHERE:
        return _plain_request(request)
    return _picky_request(replace(request, where=_where(request.where)))  # type: ignore[arg-type]  # only encoded


def user_in_facts(user: str) -> str:
    """What the facts of a user's jobs have in them, and of nobody else's: quotes in a value are
    escaped, so none can imitate a field."""
    return f'"user":{_text(user)}'


def facts_text(job: Job) -> str:
    options = job.options
    return _text(
        _Facts(
            job.priority,
            _request(job.request),
            DEFAULT_QUEUE if job.queue == DEFAULT_QUEUE else job.queue,
            None if options is NO_OPTIONS or options == NO_OPTIONS else _options(options),
            job.after,
            None if job.array is None else _array(job.array),
        )
    )


def detail_text(detail: Detail) -> str:
    """Without name and user, which have columns of their own: the rest is often alike."""
    return "{}" if detail is NO_DETAIL else _text(_detail(detail))


def progress_text(progress: Progress) -> str:
    """Names the state even where it is the default: people read this."""
    # Gangs are few. The quotes cannot stand like this inside a string.
    text = _text(_progress(progress)).replace(',"others":[]', "")
    if text.startswith('{"state"'):
        return text
    state = f'{{"state":"{progress.state.value}"'
    return f"{state}}}" if text == "{}" else f"{state},{text[1:]}"


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
    on_hold = f',"held":{_text(held)}' if held else ""
    return f'{{"at":{at},"jobs":[{",".join(jobs)}]{on_hold}}}'


def moved_text(event: JobMoved, progress: str) -> str:
    return (
        f'{{"at":{event.at},"job_id":{encode_basestring(event.job_id)}'
        f',"move":"{event.move.value}"{_by(event.by)},"progress":{progress}}}'
    )


def changed_text(event: JobChanged, facts: str) -> str:
    job = submitted_job_text(event.job, facts, NO_DETAIL, "")
    name = "" if event.name is None else f',"name":{encode_basestring(event.name)}'
    changes = f',"changes":{_text(event.changes)}' if event.changes else ""
    return f'{{"at":{event.at}{_by(event.by)},"job":{job}{name}{changes}}}'


def _by(name: str) -> str:
    return f',"by":{encode_basestring(name)}' if name else ""


def tenant_text(tenant: Tenant) -> str:
    return _text(_tenant(tenant))


def queue_text(queue: TenantQueue) -> str:
    return _text(_queue(queue))


def node_text(node: Node) -> str:
    compact = replace(node, gpus=())
    gpus = _text([_gpu(gpu) for gpu in node.gpus])
    # The GPUs are no default and stand in the middle of the fields: splice them in.
    return _text(_node(compact)).replace('"gpus":[]', f'"gpus":{gpus}', 1)


def environment_text(environment: Mapping[str, str]) -> str:
    return _text(dict(environment))


def event_text(event: Event, details: Mapping[JobId, Detail]) -> str:
    """An event as the journal has it; a submission carries the details of its jobs."""
    if isinstance(event, JobsSubmitted):
        jobs = [_job_text(job, details.get(job.job_id, NO_DETAIL)) for job in event.jobs]
        return submission_text(event.at, jobs, sorted(event.held))
    if isinstance(event, JobMoved):
        return moved_text(event, progress_text(event.progress))
    if isinstance(event, JobChanged):
        return changed_text(event, facts_text(event.job))
    by = _by(event.by) if isinstance(event, _BY_SOMEBODY) else ""
    return f'{{"at":{event.at}{by},{_setting_text(event)}}}'


def _setting_text(event: Setting) -> str:
    match event:
        case TenantSet():
            return f'"tenant":{tenant_text(event.tenant)}'
        case QueueSet():
            return f'"queue":{queue_text(event.queue)}'
        case QueueRemoved():
            return f'"tenant_id":{_quoted(event.tenant_id)},"name":{_quoted(event.name)}'
        case UsageAdded():
            names = f'"tenant_id":{_quoted(event.tenant_id)},"queue":{_quoted(event.queue)}'
            return f'{names},"usage":{_text(_usage(event.usage))}'
        case NodeSet():
            return f'"node":{node_text(event.node)}'
        case _:
            return _rare_text(event)


def _rare_text(
    event: BookingSet | BookingRemoved | SettingsSet | MixSet | ClockStepped | TimePassed,
) -> str:
    match event:
        case TimePassed():
            raise InvariantBroken("TimePassed is applied only, never recorded")
        case MixSet():
            return f'"mix":{_text(event.mix)}'
        case SettingsSet():
            return f'"version":{_text(event.version)},"values":{_text(event.values)}'
        case BookingSet():
            return f'"booking":{_text(event.booking)}'
        case BookingRemoved():
            return f'"booking_id":{_text(event.booking_id)},"cause":{_text(event.cause)}'
        case ClockStepped():
            moved = ",".join(f"[{_quoted(j)},{progress_text(p)}]" for j, p in event.moved)
            return f'"by":{event.by},"moved":[{moved}]'
        case _:
            assert_never(event)


def _job_text(job: Job, detail: Detail) -> str:
    return submitted_job_text(job, facts_text(job), detail, detail_text(detail))


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


# -- reading -----------------------------------------------------------------------------------


def decode_event(kind: str, payload: bytes) -> Event:
    return _EVENTS[kind].decode(payload)


def decode_details(payload: bytes) -> dict[JobId, Detail]:
    """The details inside a `jobs_submitted` row, of jobs that have any."""
    jobs = _SUBMISSION.decode(payload).jobs
    return {job.job_id: job.detail for job in jobs if job.detail != NO_DETAIL}


def decode_held(payload: str) -> list[JobId]:
    return _SUBMISSION.decode(payload).held


def decode_tenant(text: str) -> Tenant:
    return _TENANT.decode(text)


def decode_queue(text: str) -> TenantQueue:
    return _QUEUE.decode(text)


def decode_node(text: str) -> Node:
    return _NODE.decode(text)


def decode_environment(text: str) -> dict[str, str]:
    return _ENVIRONMENT.decode(text)


class SharedValues:
    """Decodes the texts of jobs so that equal ones become the same objects.

    A million waiting jobs of a hundred kinds then hold a hundred requests, and most of them are
    not even decoded: the text is looked up.
    """

    def __init__(self) -> None:
        self._facts: dict[str, Facts] = {}
        self._requests: dict[Request, Request] = {}
        self._options: dict[Options, Options] = {NO_OPTIONS: NO_OPTIONS}
        self._queues: dict[str, str] = {DEFAULT_QUEUE: DEFAULT_QUEUE}
        self._details: dict[str, Detail] = {}
        self._progress: dict[str, Progress] = {
            progress_text(each): each for each in (PENDING, PENDING_HELD)
        }

    def job(
        self, job_id: str, tenant_id: str, submitted_at: int, facts_text: str, nonce: str = ""
    ) -> Job:
        facts = self._facts.get(facts_text) or self._decode_facts(facts_text)
        return Job(
            JobId(job_id),
            TenantId(sys.intern(tenant_id)),
            facts.priority,
            submitted_at,
            facts.request,
            facts.queue,
            facts.options,
            facts.after,
            facts.array,
            sys.intern(nonce),
        )

    def progress(self, text: str) -> Progress:
        progress = self._progress.get(text)
        return _PROGRESS.decode(text) if progress is None else progress

    def detail(self, text: str, name: str, user: str) -> Detail:
        if text == "{}" and not name and not user:
            return NO_DETAIL
        detail = self._details.get(text)
        if detail is None:
            detail = _share(self._details, text, _DETAIL.decode(text))
        return replace(detail, name=name, user=user) if name or user else detail

    def _decode_facts(self, text: str) -> Facts:
        facts = _FACTS.decode(text)
        shared = Facts(
            facts.priority,
            _share(self._requests, facts.request, facts.request),
            _share(self._queues, facts.queue, facts.queue),
            _share(self._options, facts.options, facts.options),
            facts.after,
            facts.array,
        )
        return _share(self._facts, text, shared)


def _share(known: dict[K, T], key: K, value: T) -> T:
    shared = known.setdefault(key, value)
    if len(known) > _SHARED_LIMIT:
        known.clear()
    return shared
