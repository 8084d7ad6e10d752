"""A submission, and how it becomes jobs: arrays and sweeps are expanded here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import product
from typing import Final

from tgpu.core.errors import InvalidRequest
from tgpu.core.model.ids import DEFAULT_QUEUE, JobId, TenantId
from tgpu.core.model.job import (
    DEFAULT_PRIORITY,
    NO_DETAIL,
    NO_OPTIONS,
    Array,
    Dependency,
    Detail,
    Job,
    Options,
    Request,
)
from tgpu.service.identity.ownership import SEES_ALL, Sight

# A slip of the finger (1-10000000) must not fill the queue, and nobody shall wait while a hundred
# thousand jobs are made of one line; a real sweep this large is ten calls.
MAX_ELEMENTS: Final = 10_000
# Characters of the commands and variables of all its jobs together: each is stored with its own.
MAX_CHARACTERS: Final = 64 * 1024 * 1024
_LONGEST_ARGUMENT: Final = 131_071  # bytes that the kernel takes

TOO_MUCH: Final = (
    f"the commands and variables of all these jobs have more than {MAX_CHARACTERS // 1024**2} MiB; "
    "submit fewer at once, or put what they share into a file"
)

Documents = Mapping[tuple[str, str], bytes | None]


class SizeBy(StrEnum):
    """Where the number of GPUs comes from."""

    GIVEN = "given"  # as the request says
    MODEL = "model"  # what the model that the command names needs, by table or estimate
    LEARNED = "learned"  # … by the peaks of its past runs, where there are any


@dataclass(frozen=True, slots=True)
class RunIn:
    """The Python environment a command runs in; one of the three, or none."""

    conda: str = ""  # a name, or a path
    venv: str = ""
    uv: str = ""  # the directory of a project


@dataclass(frozen=True, slots=True)
class Submission:
    request: Request
    tenant_id: TenantId
    job_id: JobId | None = None  # None: the service names it
    priority: int | None = None  # None: what the tenant's tier says
    submitted_at: int | None = None  # None: when the service takes it
    queue: str = DEFAULT_QUEUE
    options: Options = NO_OPTIONS
    after: tuple[Dependency, ...] = ()
    indexes: tuple[int, ...] = ()  # of an array
    max_running: int | None = None
    params: tuple[tuple[str, tuple[str, ...]], ...] = ()  # of a sweep
    # The element of an array that a single job runs again: it is one of an array of its own, under
    # the same index.
    element_of: Array | None = None
    suffix: str = ""  # of its id, where several of them become one array
    held: bool = False
    detail: Detail = NO_DETAIL
    nonce: str = ""  # see Job; the service gives each submission a new one
    base_environment: Mapping[str, str] = field(default_factory=dict)
    size_by: SizeBy = SizeBy.GIVEN
    run_in: RunIn | None = None
    # Documents to be written in the commit that queues it, which gets this id.
    documents: Callable[[JobId], Documents] | None = None
    # The jobs it may wait for: others are to it as if they did not exist.
    sight: Sight = SEES_ALL

    @property
    def size(self) -> int:
        """How many jobs it becomes."""
        size = max(1, len(self.indexes))
        for _, values in self.params:
            size *= len(values)
        return size

    @property
    def characters(self) -> int:
        """Of the commands and variables of all its jobs, before parameters are put in."""
        detail = self.detail
        variables = sum(len(name) + len(value) for name, value in (*detail.env, *detail.secrets))
        return self.size * (sum(map(len, detail.argv)) + variables)

    @property
    def is_many(self) -> bool:
        return bool(self.indexes or self.params)


def unfold(submission: Submission, base_id: JobId, submitted_at: int) -> list[tuple[Job, Detail]]:
    """The jobs of a submission. Elements are `<base>.<number>`, padded so that they sort."""
    if not submission.is_many:
        array = submission.element_of
        own = None if array is None else replace(array, array_id=str(base_id))
        job_id = JobId(f"{base_id}.{submission.suffix}") if submission.suffix else base_id
        return [(_job(submission, job_id, submitted_at, own), submission.detail)]
    points = [
        tuple(zip((name for name, _ in submission.params), values, strict=True))
        for values in product(*(values for _, values in submission.params))
    ]
    indexes = submission.indexes or tuple(range(1, len(points) + 1))
    elements = (
        [(index, point) for index in indexes for point in points]
        if submission.indexes
        else list(zip(indexes, points, strict=True))
    )
    several = bool(submission.indexes) and len(points) > 1
    width = len(str(max(indexes)))
    point_width = len(str(len(points)))
    jobs = []
    characters = 0
    for position, (index, point) in enumerate(elements):
        suffix = f"{index:0{width}}"
        if several:
            suffix += f".{position % len(points) + 1:0{point_width}}"
        job_id = JobId(f"{base_id}.{suffix}")
        array = Array(str(base_id), index, submission.max_running)
        detail = _with_point(submission.detail, point) if point else submission.detail
        characters += sum(map(len, detail.argv)) if point else 0
        if characters > MAX_CHARACTERS:
            raise InvalidRequest("params", len(elements), TOO_MUCH)
        jobs.append((_job(submission, job_id, submitted_at, array), detail))
    return jobs


def parse_indexes(text: str) -> tuple[int, ...]:
    """ "1-4,9" is 1, 2, 3, 4, 9. InvalidRequest for anything else."""
    indexes: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (_is_number(first) and (_is_number(last) if dash else not last)):
            raise InvalidRequest("array", text, "write indexes like 1-100 or 1,3,5-9")
        low, high = int(first), int(last) if dash else int(first)
        if low > high:
            raise InvalidRequest("array", text, f"{low} is above {high}; write {high}-{low}")
        if high - low + len(indexes) >= MAX_ELEMENTS:
            raise InvalidRequest("array", text, f"at most {MAX_ELEMENTS} elements")
        indexes.extend(range(low, high + 1))
    if len(set(indexes)) != len(indexes):
        raise InvalidRequest("array", text, "an index stands in it twice")
    return tuple(sorted(indexes))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def _job(submission: Submission, job_id: JobId, submitted_at: int, array: Array | None) -> Job:
    return Job(
        job_id,
        submission.tenant_id,
        DEFAULT_PRIORITY if submission.priority is None else submission.priority,
        submitted_at,
        submission.request,
        submission.queue,
        submission.options,
        submission.after,
        array,
        submission.nonce,
    )


def _with_point(detail: Detail, point: tuple[tuple[str, str], ...]) -> Detail:
    argv = []
    for argument in detail.argv:
        text = argument
        for name, value in point:
            grown = len(text) + text.count("{" + name + "}") * len(value)
            if grown > _LONGEST_ARGUMENT:
                most = f"makes an argument of more than {_LONGEST_ARGUMENT} bytes"
                raise InvalidRequest(f"params.{name}", value, most)
            # Literal replacement: other braces, JSON above all, pass through untouched.
            text = text.replace("{" + name + "}", value)
        argv.append(text)
    return replace(detail, argv=tuple(argv), params=point)
