"""What synchronous and asynchronous connections share: address, credentials, timeouts.

Requests are made here from calls, and answers become values or errors; sending is the clients'.
"""

import ssl
from pathlib import Path
from typing import Final, TypedDict, TypeVar

import httpx
from pydantic import ValidationError

from tgpu.client.call import Call
from tgpu.client.errors import BadAnswer, ClientError, Lost, NoService, refusal
from tgpu.client.problems import problem_of
from tgpu.client.target import Target, parse_target
from tgpu.wire.complaints import remedy_of
from tgpu.wire.v1 import ErrorAnswer, SubmitRequest

ANSWER_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 5.0
# A long poll answers at its own time limit; the rest is for a busy machine.
_POLL_MARGIN_SECONDS: Final = 15.0
# Streams of events and long polls keep connections for themselves: no bound may be reached.
LIMITS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=20)
T = TypeVar("T")
Verify = bool | str | Path | ssl.SSLContext


class HttpOptions(TypedDict):
    """Of httpx's clients, which take the same in both colours."""

    base_url: str
    headers: dict[str, str]
    trust_env: bool
    timeout: httpx.Timeout
    verify: bool | ssl.SSLContext
    limits: httpx.Limits


class Connection:
    """`target` None: what TGPU_URL names, else the service of this user."""

    def __init__(
        self,
        target: Target | str | None,
        api_key: str | None,
        timeout_seconds: float,
        verify: Verify,
    ) -> None:
        self._tenant: str | None = None
        if target is None:
            # Not at the top: who names an address need not load the means to find one.
            from tgpu.client.surroundings import surroundings

            found = surroundings()
            target, api_key = found.target, api_key or found.api_key
            self._tenant = found.tenant
            verify = found.ca_file or True if verify is True else verify
        self.target = parse_target(target) if isinstance(target, str) else target
        self._timeout_seconds = timeout_seconds
        self._api_key = api_key
        self._verify = verify

    def http_options(self) -> HttpOptions:
        key = self._api_key
        return {
            "base_url": self.target.base_url,
            "headers": {} if key is None else {"Authorization": f"Bearer {key}"},
            "trust_env": not self.target.is_local,
            "timeout": self._timeout(0),
            "verify": self.verification(),
            "limits": LIMITS,
        }

    def for_tenant(self, request: SubmitRequest) -> SubmitRequest:
        """For the tenant that TGPU_TENANT chooses, where it names none."""
        if self._tenant is None or request.tenant_id is not None:
            return request
        return request.model_copy(update={"tenant_id": self._tenant})

    def verification(self) -> bool | ssl.SSLContext:
        if self.target.is_plain:
            return False  # there is no certificate, and loading the authorities takes its time
        if isinstance(self._verify, str | Path):
            return ssl.create_default_context(cafile=str(self._verify))
        return self._verify

    def request(
        self, http: httpx.Client | httpx.AsyncClient, call: Call[object], silence_seconds: float = 0
    ) -> httpx.Request:
        """`silence_seconds`: how long a stream may say nothing."""
        socket = self.target.socket
        if socket is not None and not socket.exists():
            raise NoService(str(self.target), "there is no such socket")
        return http.build_request(
            call.method,
            call.path,
            params={name: value for name, value in call.query.items() if value is not None},
            content=call.body,
            headers={"Content-Type": call.content_type} if call.body is not None else None,
            timeout=self._timeout(silence_seconds or call.poll_seconds),
        )

    def result(self, call: Call[T], answer: httpx.Response) -> T:
        self.check(answer)
        try:
            return call.read(answer.content, answer.headers)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or "the answer"
            problem = f"{call.method} {call.path}: {field}: {remedy_of(first)}"
            raise BadAnswer(str(self.target), problem, answer.status_code) from error
        except ValueError as error:
            raise BadAnswer(str(self.target), str(error), answer.status_code) from error

    def check(self, answer: httpx.Response) -> None:
        """Raises what the service says instead of an answer."""
        if answer.is_success:
            return
        try:
            error = ErrorAnswer.model_validate_json(answer.content, extra="ignore").error
        except ValidationError:
            problem = f"it answered with HTTP status {answer.status_code}"
            raise BadAnswer(str(self.target), problem, answer.status_code) from None
        raise refusal(error.code, error.message, error.details, answer.status_code)

    def failure(self, error: httpx.HTTPError) -> ClientError:
        """Blocks for a second at most, to look who stands there."""
        problem = problem_of(self.target, error)
        never_sent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol)
        if problem.is_stranger or isinstance(error, never_sent):
            return NoService(str(self.target), problem.sentence)
        return Lost(str(self.target), problem.sentence)

    def _timeout(self, poll_seconds: float) -> httpx.Timeout:
        answer = poll_seconds + _POLL_MARGIN_SECONDS if poll_seconds else 0
        return httpx.Timeout(
            max(self._timeout_seconds, answer),
            connect=min(self._timeout_seconds, _CONNECT_SECONDS),
        )
