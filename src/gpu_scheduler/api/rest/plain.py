"""The plain jobs of the root paths: six fields, whole GPUs, seconds. Decoded by msgspec."""

import csv
import io
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from gpu_scheduler.core.errors import InvalidRequest
from gpu_scheduler.core.ids import JOB_ID_RULE, JobId, TenantId, is_job_id
from gpu_scheduler.core.job import Job, Options, Request
from gpu_scheduler.core.units import GPU, SECOND

# Seconds whose milliseconds still are exact everywhere (see wire/v1.py).
_FARTHEST = (2**53 - 1) // SECOND
_Seconds = Annotated[int, msgspec.Meta(ge=-_FARTHEST, le=_FARTHEST)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class PlainJob(msgspec.Struct, gc=False):
    job_id: _Name
    tenant_id: _Name
    gpu_type: _Name
    gpus: Annotated[int, msgspec.Meta(gt=0, le=100_000)]
    priority: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
    submitted_at: _Seconds
    max_runtime: Annotated[float, msgspec.Meta(gt=0, le=_FARTHEST)] | None = None


_decoder = msgspec.json.Decoder(PlainJob)
_LEASE = Options(lease=True)


class Interned:
    """Requests and options that were made already: bulk jobs are alike, and share them."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, int], Request] = {}
        self._options: dict[float, Options] = {}
        self._tenants: dict[str, TenantId] = {}

    def job(self, plain: PlainJob) -> Job:
        if not is_job_id(plain.job_id):
            raise InvalidRequest("job_id", plain.job_id, f"an id is {JOB_ID_RULE}")
        shape = (plain.gpu_type, plain.gpus)
        request = self._requests.get(shape)
        if request is None:
            request = self._requests[shape] = Request(plain.gpus * GPU, plain.gpu_type)
        options = _LEASE
        if plain.max_runtime is not None:
            options = self._options.get(plain.max_runtime) or self._options.setdefault(
                plain.max_runtime,
                Options(lease=True, time_limit_ms=max(1, round(plain.max_runtime * SECOND))),
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
        raise _invalid(str(error), data) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAnObject(str(error)) from None


def convert(value: Any) -> PlainJob:
    """One job from decoded JSON."""
    try:
        return msgspec.convert(value, PlainJob)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), value) from None


class NotAnObject(Exception):
    """The text is not a JSON object."""


def ndjson_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers from 1; blank ones are passed over."""
    for number, line in enumerate(data.split(b"\n"), 1):
        stripped = line.strip()
        if stripped:
            yield number, stripped


def csv_rows(text: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Rows with their line numbers; a row that does not fit the header comes as a complaint."""
    reader = csv.reader(io.StringIO(text, newline=""))
    header = [name.strip() for name in next(reader, [])]
    for row in reader:
        if not row:
            continue
        if len(row) != len(header):
            yield reader.line_num, f"{len(row)} values under a header of {len(header)}"
            continue
        yield reader.line_num, _typed(dict(zip(header, (v.strip() for v in row), strict=True)))


def csv_header_complaint(text: str) -> str | None:
    first = text.split("\n", maxsplit=1)[0]
    names = {name.strip() for name in first.split(",")}
    missing = [f for f in PlainJob.__struct_fields__ if f not in names and f != "max_runtime"]
    return f"the header lacks: {', '.join(missing)}" if missing else None


_NUMBERS = ("gpus", "priority", "submitted_at", "max_runtime")


def _typed(row: dict[str, str]) -> dict[str, Any]:
    typed: dict[str, Any] = {}
    for name, value in row.items():
        if name == "max_runtime" and not value:
            continue
        typed[name] = _number(value) if name in _NUMBERS else value
    return typed


def _number(text: str) -> int | float | str:
    """What it says, or the text itself, for the validation to complain about."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _invalid(message: str, value: object) -> InvalidRequest:
    """msgspec says "Expected `int`, got `str` - at `$.gpus`"; name the field and its value."""
    complaint, _, place = message.partition(" - at `$")
    field = place.rstrip("`").lstrip(".")
    if not field and "missing required field" in complaint:
        field = complaint.split("`")[-2]
        return InvalidRequest(field, None, "this field is required")
    raw: Any = value
    if isinstance(raw, bytes):
        raw = msgspec.json.decode(raw)
    shown = raw.get(field, raw) if isinstance(raw, dict) else raw
    return InvalidRequest(field or "body", shown, complaint[:1].lower() + complaint[1:])
