"""Stored values as JSON: defaults are left out, equal values are shared when read.

The core's dataclasses stay free of serialisation; everything a store needs to know about their
shape is here, and in `event_codec` what it needs to know about events.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, replace
from operator import attrgetter
from typing import Final, TypeVar

import msgspec

from tgpu.core.model.ids import DEFAULT_QUEUE, JobId, TenantId
from tgpu.core.model.job import (
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
from tgpu.core.model.lifecycle import PENDING, PENDING_HELD, Progress
from tgpu.core.model.node import Gpu, Node
from tgpu.core.model.tenant import Tenant, TenantQueue
from tgpu.core.model.usage import GpuTimeUsage

T = TypeVar("T")
K = TypeVar("K")

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
_usage = _compact(GpuTimeUsage)
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


class StoredFacts(msgspec.Struct, frozen=True):
    """What `_Facts` decodes to: the core's own values."""

    priority: int
    request: Request
    queue: str = DEFAULT_QUEUE
    options: Options = NO_OPTIONS
    after: tuple[Dependency, ...] = ()
    array: Array | None = None


_ENCODER: Final = msgspec.json.Encoder()
_FACTS: Final = msgspec.json.Decoder(StoredFacts)
_PROGRESS: Final = msgspec.json.Decoder(Progress)
_DETAIL: Final = msgspec.json.Decoder(Detail)
_TENANT: Final = msgspec.json.Decoder(Tenant)
_QUEUE: Final = msgspec.json.Decoder(TenantQueue)
_NODE: Final = msgspec.json.Decoder(Node)
_ENVIRONMENT: Final = msgspec.json.Decoder(dict[str, str])


def json_text(value: object) -> str:
    return _ENCODER.encode(value).decode()


# -- writing -----------------------------------------------------------------------------------


def _request(request: Request) -> msgspec.Struct:
    if request.where is ANYWHERE or request.where == ANYWHERE:
        return _plain_request(request)
    return _picky_request(replace(request, where=_where(request.where)))  # type: ignore[arg-type]  # only encoded


def user_in_facts(user: str) -> str:
    """What the facts of a user's jobs have in them, and of nobody else's: quotes in a value are
    escaped, so none can imitate a field."""
    return f'"user":{json_text(user)}'


def facts_text(job: Job) -> str:
    options = job.options
    return json_text(
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
    return "{}" if detail is NO_DETAIL else json_text(_detail(detail))


def progress_text(progress: Progress) -> str:
    """Names the state even where it is the default: people read this."""
    # Gangs are few. The quotes cannot stand like this inside a string.
    text = json_text(_progress(progress)).replace(',"others":[]', "")
    if text.startswith('{"state"'):
        return text
    state = f'{{"state":"{progress.state.value}"'
    return f"{state}}}" if text == "{}" else f"{state},{text[1:]}"


def tenant_text(tenant: Tenant) -> str:
    return json_text(_tenant(tenant))


def queue_text(queue: TenantQueue) -> str:
    return json_text(_queue(queue))


def node_text(node: Node) -> str:
    compact = replace(node, gpus=())
    gpus = json_text([_gpu(gpu) for gpu in node.gpus])
    # The GPUs are no default and stand in the middle of the fields: splice them in.
    return json_text(_node(compact)).replace('"gpus":[]', f'"gpus":{gpus}', 1)


def usage_text(usage: GpuTimeUsage) -> str:
    return json_text(_usage(usage))


def environment_text(environment: Mapping[str, str]) -> str:
    return json_text(dict(environment))


# -- reading -----------------------------------------------------------------------------------


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
        self._facts: dict[str, StoredFacts] = {}
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

    def _decode_facts(self, text: str) -> StoredFacts:
        facts = _FACTS.decode(text)
        shared = StoredFacts(
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
