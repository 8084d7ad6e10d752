"""The plain jobs of the root paths: six fields, whole GPUs, seconds. Decoded by msgspec."""

from dataclasses import replace
from typing import Annotated, Any

import msgspec

from tgpu.api.rest.route import BadJson, decode_json
from tgpu.api.translate.wording import of_bad_json, of_msgspec
from tgpu.core.errors import InvalidRequest, SchedulerError
from tgpu.core.model.ids import JOB_ID_RULE, JobId, TenantId, is_job_id
from tgpu.core.model.job import Job, Options, Request
from tgpu.core.model.units import GPU, SECOND

# Seconds whose milliseconds still are exact everywhere (see wire/v1.py).
_FARTHEST = (2**53 - 1) // SECOND
_Seconds = Annotated[int, msgspec.Meta(ge=-_FARTHEST, le=_FARTHEST)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class PlainJob(msgspec.Struct, gc=False):
    job_id: _Name
    tenant_id: _Name
    gpu_type: _Name
    gpus: Annotated[int, msgspec.Meta(gt=0, le=100_000)]
    priority: Annotated[int, msgspec.Meta(ge=-(2**53 - 1), le=2**53 - 1)]
    submitted_at: _Seconds
    max_runtime: Annotated[float, msgspec.Meta(gt=0, le=_FARTHEST)] | None = None
    image: Annotated[str, msgspec.Meta(max_length=4096)] = (
        ""  # known so that it is refused: other unknown fields change nothing
    )


_decoder = msgspec.json.Decoder(PlainJob)


class Interned:
    """Requests and options that were made already: bulk jobs are alike, and share them."""

    def __init__(self, user: str = "") -> None:
        """`user`: whose share of the tenant's they count for."""
        self._lease = Options(lease=True, user=user)
        self._requests: dict[tuple[str, int], Request] = {}
        self._options: dict[float, Options] = {}
        self._tenants: dict[str, TenantId] = {}

    def job(self, plain: PlainJob) -> Job:
        if not is_job_id(plain.job_id):
            raise InvalidRequest("job_id", plain.job_id, f"an id is {JOB_ID_RULE}")
        if plain.image:
            remedy = "a plain job is a lease and runs in no container image; leave it out"
            raise InvalidRequest("image", plain.image, remedy)
        shape = (plain.gpu_type, plain.gpus)
        request = self._requests.get(shape)
        if request is None:
            if "\0" in plain.gpu_type:
                raise InvalidRequest("gpu_type", plain.gpu_type, "must not contain NUL characters")
            request = self._requests[shape] = Request(plain.gpus * GPU, plain.gpu_type)
        options = self._lease
        if plain.max_runtime is not None:
            options = self._options.get(plain.max_runtime) or self._options.setdefault(
                plain.max_runtime,
                replace(self._lease, time_limit_ms=max(1, round(plain.max_runtime * SECOND))),
            )
        tenant_id = self._tenants.setdefault(plain.tenant_id, TenantId(plain.tenant_id))
        return Job(
            JobId(plain.job_id),
            tenant_id,
            plain.priority,
            plain.submitted_at * SECOND,
            request,
            options=options,
        )


def decode(data: bytes) -> PlainJob:
    """One job from JSON; InvalidRequest names the field, NotAnObject what is no object at all."""
    try:
        return _decoder.decode(data)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), _loosely(data)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotAnObject(of_bad_json(str(error))) from None


def convert(value: Any) -> PlainJob:
    """One job from decoded JSON."""
    try:
        return msgspec.convert(value, PlainJob)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), value) from None


class NotAnObject(Exception):
    """The text is not a JSON object."""


class _Missing(InvalidRequest):
    """There is no value to quote."""

    def __init__(self, field: str) -> None:
        remedy = "is required"
        details: list[dict[str, object]] = [{"field": field, "value": "", "remedy": remedy}]
        SchedulerError.__init__(self, f"{field}: {remedy}", details)
        self.field = field


def _invalid(message: str, value: object) -> InvalidRequest:
    """msgspec says "Expected `int`, got `str` - at `$.gpus`"; name the field and its value."""
    complaint, _, place = message.partition(" - at `$")
    field = place.rstrip("`").lstrip(".")
    if not field and "missing required field" in complaint:
        return _Missing(complaint.split("`")[-2])
    if not field:
        return InvalidRequest("body", value, "must be a JSON object")
    shown = value.get(field) if isinstance(value, dict) else value
    return InvalidRequest(field, shown, of_msgspec(complaint))


def _loosely(data: bytes) -> Any:
    """What stands there, to quote it. msgspec stops at the first wrong value: the rest may be no
    JSON at all, and what is JSON may have numbers that msgspec does not read."""
    try:
        return decode_json(data)
    except BadJson as error:
        raise NotAnObject(str(error)) from None
    except ValueError as error:
        raise NotAnObject(of_bad_json(str(error))) from None


def job_id_in(item: Any) -> str | None:
    """The id that a refused job gives itself, as far as it does."""
    found = _loosely(item) if isinstance(item, bytes) else item
    job_id = found.get("job_id") if isinstance(found, dict) else None
    return job_id if isinstance(job_id, str) else None
