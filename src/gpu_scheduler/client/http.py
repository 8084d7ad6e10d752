"""The REST API as typed calls over TCP or a Unix socket. Synchronous: its callers are commands."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from gpu_scheduler.client.errors import BadAnswer, ClientError, Lost, NoService
from gpu_scheduler.client.target import Target
from gpu_scheduler.wire.v1 import (
    ActionAnswer,
    ClusterStatus,
    ErrorAnswer,
    GpuList,
    GpuModel,
    Health,
    JobList,
    JobModel,
    PauseRequest,
    SubmitAnswer,
    SubmitRequest,
    WhyAnswer,
)

_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 30.0
# A long poll answers at its own time limit; the rest is for a busy machine.
_POLL_MARGIN_SECONDS: Final = 15.0
_PAGE: Final = 1000
_M = TypeVar("_M", bound=BaseModel)
_Query = Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Some bytes of a log. `complete` says that nothing follows after `size`."""

    data: bytes
    offset: int  # of the first byte of `data`
    size: int  # of the whole log when it was read
    complete: bool

    @property
    def end(self) -> int:
        return self.offset + len(self.data)

    @property
    def is_last(self) -> bool:
        return self.complete and self.end >= self.size


class Client:
    """One connection pool to one service. Every call raises ClientError or one of its kinds."""

    def __init__(
        self,
        target: Target,
        *,
        timeout_seconds: float = _ANSWER_SECONDS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.target = target
        self._timeout = timeout_seconds
        if transport is None and target.socket is not None:
            transport = httpx.HTTPTransport(uds=str(target.socket))
        self._http = httpx.Client(
            base_url=target.base_url,
            transport=transport,
            trust_env=not target.is_local,
            timeout=httpx.Timeout(timeout_seconds, connect=min(timeout_seconds, _CONNECT_SECONDS)),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # The service itself

    def health(self) -> Health:
        return self._call(Health, "GET", "/health")

    def cluster_status(self) -> ClusterStatus:
        return self._call(ClusterStatus, "GET", "/cluster/status")

    # Jobs

    def submit(self, request: SubmitRequest) -> SubmitAnswer:
        """Queue a job. After `Lost` it may be queued or not: only a `job_id` makes a retry safe."""
        return self._call(SubmitAnswer, "POST", "/jobs", body=request)

    def list_jobs(
        self,
        *,
        states: Sequence[str] = (),
        tenant_id: str | None = None,
        name: str | None = None,
        user: str | None = None,
        array_id: str | None = None,
        limit: int = 100,
        cursor: int | None = None,
    ) -> JobList:
        query = {
            "state": ",".join(states) or None,
            "tenant_id": tenant_id,
            "name": name,
            "user": user,
            "array_id": array_id,
            "limit": limit,
            "cursor": cursor,
        }
        given = {key: value for key, value in query.items() if value is not None}
        return self._call(JobList, "GET", "/jobs", query=given)

    def iter_jobs(
        self,
        limit: int | None = None,
        *,
        states: Sequence[str] = (),
        tenant_id: str | None = None,
        name: str | None = None,
        user: str | None = None,
        array_id: str | None = None,
    ) -> Iterator[JobModel]:
        """Page through the jobs that match, newest first, `limit` of them at most."""
        cursor: int | None = None
        left = limit
        while left is None or left > 0:
            page = self.list_jobs(
                states=states,
                tenant_id=tenant_id,
                name=name,
                user=user,
                array_id=array_id,
                limit=_PAGE if left is None else min(left, _PAGE),
                cursor=cursor,
            )
            yield from page.jobs
            cursor = page.next_cursor
            if cursor is None:
                return
            left = None if left is None else left - len(page.jobs)

    def get_job(self, job_id: str) -> JobModel:
        return self._call(JobModel, "GET", _job_path(job_id))

    def cancel_job(self, job_id: str) -> ActionAnswer:
        return self._call(ActionAnswer, "DELETE", _job_path(job_id))

    def hold_job(self, job_id: str) -> ActionAnswer:
        return self._call(ActionAnswer, "POST", _job_path(job_id, "hold"))

    def release_job(self, job_id: str) -> ActionAnswer:
        return self._call(ActionAnswer, "POST", _job_path(job_id, "release"))

    def complete_job(self, job_id: str) -> ActionAnswer:
        return self._call(ActionAnswer, "POST", _job_path(job_id, "complete"))

    def rerun_job(self, job_id: str) -> SubmitAnswer:
        return self._call(SubmitAnswer, "POST", _job_path(job_id, "rerun"))

    def why(self, job_id: str) -> WhyAnswer:
        return self._call(WhyAnswer, "GET", _job_path(job_id, "why"))

    def wait_job(self, job_id: str, timeout_seconds: float = 20) -> JobModel:
        """The job once it is over, or as it stands after `timeout_seconds` (60 at most)."""
        return self._call(
            JobModel,
            "GET",
            _job_path(job_id, "wait"),
            query={"timeout": timeout_seconds},
            poll_seconds=timeout_seconds,
        )

    def read_log(
        self,
        job_id: str,
        stream: str = "stdout",
        *,
        offset: int = 0,
        limit: int = 1_000_000,
        attempt: int | None = None,
        wait_seconds: float = 0,
    ) -> LogChunk:
        """Bytes from `offset` on (negative: from the end); with a wait, once there are some."""
        query: dict[str, str | int | float] = {"stream": stream, "offset": offset, "limit": limit}
        if attempt is not None:
            query["attempt"] = attempt
        if wait_seconds:
            query["wait"] = wait_seconds
        answer = self._send("GET", _job_path(job_id, "logs"), query, None, wait_seconds)
        try:
            return LogChunk(
                answer.content,
                int(answer.headers["x-log-offset"]),
                int(answer.headers["x-log-size"]),
                answer.headers.get("x-log-complete", "").lower() == "true",
            )
        except (KeyError, ValueError):
            problem = "a log without X-Log-Offset and X-Log-Size"
            raise BadAnswer(str(self.target), problem, answer.status_code) from None

    # GPUs

    def gpus(self) -> GpuList:
        return self._call(GpuList, "GET", "/gpus")

    def pause_gpu(self, index: int, reason: str | None = None) -> GpuModel:
        body = PauseRequest() if reason is None else PauseRequest(reason=reason)
        return self._call(GpuModel, "POST", f"/gpus/{index}/pause", body=body)

    def resume_gpu(self, index: int) -> GpuModel:
        return self._call(GpuModel, "POST", f"/gpus/{index}/resume")

    # How a call is made

    def _call(
        self,
        model: type[_M],
        method: str,
        path: str,
        *,
        query: _Query | None = None,
        body: BaseModel | None = None,
        poll_seconds: float = 0,
    ) -> _M:
        answer = self._send(method, path, query, body, poll_seconds)
        try:
            # A newer service may say more than we know; that is no error.
            return model.model_validate_json(answer.content, extra="ignore")
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or "the answer"
            problem = f"{method} {path}: {field}: {first['msg']}"
            raise BadAnswer(str(self.target), problem, answer.status_code) from error

    def _send(
        self,
        method: str,
        path: str,
        query: _Query | None,
        body: BaseModel | None,
        poll_seconds: float,
    ) -> httpx.Response:
        socket = self.target.socket
        if socket is not None and not socket.exists():
            raise NoService(str(self.target), "there is no such socket")
        content = None if body is None else body.model_dump_json(exclude_defaults=True)
        timeout = httpx.Timeout(
            max(self._timeout, poll_seconds + _POLL_MARGIN_SECONDS if poll_seconds else 0),
            connect=min(self._timeout, _CONNECT_SECONDS),
        )
        try:
            answer = self._http.request(
                method,
                "/api/v1" + path,
                params=query,
                content=content,
                headers={"Content-Type": "application/json"} if content is not None else None,
                timeout=timeout,
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol) as error:
            raise NoService(str(self.target), _problem(error)) from error
        except httpx.HTTPError as error:
            raise Lost(str(self.target), _problem(error)) from error
        if not answer.is_success:
            raise self._refusal(answer)
        return answer

    def _refusal(self, answer: httpx.Response) -> ClientError:
        try:
            error = ErrorAnswer.model_validate_json(answer.content, extra="ignore").error
        except ValidationError:
            problem = f"HTTP {answer.status_code} {answer.reason_phrase}".strip()
            return BadAnswer(str(self.target), problem, answer.status_code)
        return ClientError(error.code, error.message, error.details, answer.status_code)


def _job_path(job_id: str, tail: str = "") -> str:
    # "." and ".." are path segments with a meaning of their own, and never ids.
    if job_id in ("", ".", ".."):
        raise ClientError("JOB_NOT_FOUND", f"no job named {job_id!r}", status=404)
    path = f"/jobs/{quote(job_id, safe='')}"
    return f"{path}/{tail}" if tail else path


def _problem(error: httpx.HTTPError) -> str:
    text = str(error).removeprefix("[Errno ").partition("] ")[2] or str(error)
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    return (text or type(error).__name__).lower()
