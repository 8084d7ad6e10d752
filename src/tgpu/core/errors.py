"""The tree of errors, split by who must act.

    SchedulerError
    ├── InvalidRequest     the caller must change the request
    │   ├── Malformed      … because it is no proper request, whatever it asks for
    │   └── QuotaExceeded  … because it can never fit the tenant's quota
    ├── Unauthenticated    nobody knows who the caller is
    ├── Forbidden          the caller may not do this
    ├── NotFound           there is no such thing
    ├── Conflict           the state of the thing does not allow it: look again
    │   ├── Duplicate      … because the name is taken
    │   └── IllegalMove    … because the job is in another state
    ├── RateLimited        the caller asks too often: try again in a moment
    ├── Unavailable        nothing is wrong with the request: try again later
    └── InvariantBroken    our bug: stop the cycle, keep the facts

Constructors take facts and write the sentence. One table in `api/errors.py` maps each class to an
HTTP status and an exit code.
"""

import math
from collections.abc import Iterable
from itertools import islice
from typing import Final

_QUOTED: Final = 80  # characters of a value that a sentence quotes
_NAMED: Final = 128  # of a name: all that a job, tenant or queue may have
_ENTRIES: Final = 20  # of a list or object that are looked at for it
_DEPTH: Final = 4


def quoted(value: object) -> str:
    """A value in a sentence, as Python writes it. What it costs does not grow with the value."""
    if isinstance(value, bytes):  # of a body that was not read as anything
        value = value[: _QUOTED + 1].decode(errors="replace")
    text = repr(_beginning(value, 0))
    return text if len(text) <= _QUOTED else text[: _QUOTED - 3] + "..."


def _beginning(value: object, depth: int) -> object:
    match value:
        case str() | bytes():
            return value[: _QUOTED + 1]
        case list() | tuple() | dict() if depth == _DEPTH:
            return "..."
        case list() | tuple():
            return type(value)([_beginning(each, depth + 1) for each in value[: _ENTRIES + 1]])
        case dict():
            items = islice(value.items(), _ENTRIES + 1)
            return {_beginning(k, depth): _beginning(v, depth + 1) for k, v in items}
        case int() if value.bit_length() > 4 * _QUOTED:
            return "a number of very many digits"
        case _:
            return value


class SchedulerError(Exception):
    """The root; `details` are facts for programs, the message is for people."""

    def __init__(self, message: str, details: Iterable[dict[str, object]] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.details = list(details)


class InvalidRequest(SchedulerError):
    """A field has a value that cannot be."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        shown = quoted(value)
        super().__init__(
            f"{field}: {remedy} (got {shown})",
            [{"field": field, "value": shown, "remedy": remedy}],
        )
        self.field = field


class Malformed(InvalidRequest):
    """A header has a value that no such header can have."""


class QuotaExceeded(InvalidRequest):
    """More than the tenant may ever have at once."""

    def __init__(self, tenant_id: str, what: str, requested: str, quota: str, current: str) -> None:
        sentence = (
            f"quota exceeded for tenant {tenant_id}: "
            f"{what} requested={requested}, quota={quota}, current={current}"
        )
        SchedulerError.__init__(
            self,
            sentence,
            [
                {
                    "tenant_id": tenant_id,
                    "resource": what,
                    "requested": requested,
                    "quota": quota,
                    "current": current,
                }
            ],
        )
        self.field = what


class Unauthenticated(SchedulerError):
    """The caller has shown nothing that proves who they are, or something that is not valid."""


class Forbidden(SchedulerError):
    """The caller is known, and may not do this."""


class NotFound(SchedulerError):
    def __init__(self, kind: str, name: str, remedy: str = "") -> None:
        tail = f"; {remedy}" if remedy else ""
        name = name if len(name) <= _NAMED else f"{name[:_NAMED]}..."
        super().__init__(f"no {kind} named {name!r}{tail}", [{"kind": kind, "name": name}])
        self.kind = kind


class Conflict(SchedulerError):
    """The thing has moved on, or never was where the caller thinks."""


class Duplicate(Conflict):
    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id} already exists", [{"job_id": job_id}])


class IllegalMove(Conflict):
    def __init__(self, job_id: str, state: str, action: str) -> None:
        super().__init__(
            f"job {job_id} is {state}, so it cannot {action}",
            [{"job_id": job_id, "state": state, "action": action}],
        )


class RateLimited(SchedulerError):
    def __init__(self, wait_seconds: float) -> None:
        seconds = math.ceil(wait_seconds)
        super().__init__(
            f"too many requests; try again in {seconds} s", [{"retry_after_seconds": seconds}]
        )
        self.wait_seconds = seconds


class Unavailable(SchedulerError):
    """The service cannot do this now: a full disk, a queue at its cap, an engine out of reach."""

    wait_seconds = 2  # a good time to try again


class InvariantBroken(SchedulerError):
    """Two facts that exclude each other. Never the caller's fault."""
