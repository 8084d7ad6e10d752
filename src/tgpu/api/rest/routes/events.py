"""/api/v1/events: every change as it is recorded, over WebSocket and as server-sent events."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import StreamingResponse
from starlette.requests import HTTPConnection

from tgpu.api.access.visible import looking, visible_job
from tgpu.api.errors import body, http_error
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.held_stream import HeldStream, streams_of
from tgpu.api.rest.parameters import Name
from tgpu.api.streams import Streams
from tgpu.api.translate.events import EventText, event_model, event_text, reading_model, text_of
from tgpu.core.errors import InvalidRequest, SchedulerError
from tgpu.core.model.ids import JobId
from tgpu.service.feed.feed import SlowReader, Subscription
from tgpu.service.identity.caller import Permission
from tgpu.service.service import Service
from tgpu.wire.events_v1 import EventList

router = APIRouter(tags=["events"])

# Idle connections are cut by proxies after a minute; a sign of life in between keeps them.
_HEARTBEAT_SECONDS = 15.0
# RFC 6455: "try again later". The reason tells where to go on.
_SLOW_CODE = 1013
_REFUSED_CODE = 1008

# After some events were sent, others may gather for so long: readers by the hundred take them in
# one piece for each, and nobody sees the difference.
_GATHER_SECONDS = 0.05
_AT_ONCE = 32  # messages to one reader before others have their turn
_WIDEST = 10**16 - 1
_LONGEST = 512  # characters of a name to filter by


Send = Callable[[Sequence[EventText]], Awaitable[None]]


@router.websocket("/api/v1/events")
async def watch(websocket: WebSocket) -> None:
    """Events as JSON messages. `after` resumes; a slow reader is closed with 1013."""
    await websocket.accept()
    try:
        service, streams = service_of(websocket), streams_of(websocket)
        streams.check(caller_of(websocket))
        telling = _Telling(service, streams, _wants_readings(websocket))
        subscription = _subscription(service, websocket)
        with streams.held(caller_of(websocket)):
            async with _until_gone(websocket), subscription:
                await telling.tell(subscription, _sender(websocket))
    except SlowReader as error:
        await _close(websocket, _SLOW_CODE, error.message)
    except SchedulerError as error:
        await _close(websocket, _REFUSED_CODE, f"{http_error(error).code}: {error.message}")
    except (WebSocketDisconnect, asyncio.CancelledError, RuntimeError):
        pass  # the reader went away
    else:
        await _close(websocket, 1001, "the service is stopping")


class EventStreamResponse(HeldStream):
    media_type = "text/event-stream"


def _parameter(name: str, description: str, **schema: object) -> dict[str, object]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


@router.get(
    "/api/v1/events",
    response_class=EventStreamResponse,
    openapi_extra={
        "parameters": [
            _parameter(
                "after", "continue after this number", type="integer", minimum=0, maximum=_WIDEST
            ),
            _parameter("job_id", "only this job", type="string", maxLength=_LONGEST),
            _parameter("tenant_id", "only this tenant", type="string", maxLength=_LONGEST),
            _parameter("project_id", "same as tenant_id", type="string", maxLength=_LONGEST),
            _parameter(
                "readings", "include GPU readings and estimates", type="boolean", default=True
            ),
        ]
    },
)
async def stream(request: Request) -> StreamingResponse:
    """Follow every change as server-sent events; `Last-Event-ID` or `after` resumes."""
    service, streams = service_of(request), streams_of(request)
    streams.check(caller_of(request))
    subscription = _subscription(service, request)
    lines = _lines(_Telling(service, streams, _wants_readings(request)), subscription)
    return EventStreamResponse(lines, streams, caller_of(request))


@router.get("/api/v1/jobs/{job}/events")
async def history(
    request: Request,
    job: Name,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> EventList:
    """What happened to one job, oldest first."""
    service = service_of(request)
    caller = caller_of(request)
    job_id = (await visible_job(service, caller, job)).job.job_id
    found = await service.feed.history(job_id, after, limit, looking(service, caller))
    return EventList(
        events=[event_model(event) for event in found],
        next_after=found[-1].seq if len(found) == limit else None,
    )


def _subscription(service: Service, connection: HTTPConnection) -> Subscription:
    query = connection.query_params
    after = query.get("after") or connection.headers.get("last-event-id")
    if after is not None and not (after.isascii() and after.isdigit() and len(after) <= 16):
        raise InvalidRequest("after", after, "a sequence number is 0 or more")
    for name in ("job_id", "tenant_id", "project_id"):
        if len(query.get(name, "")) > _LONGEST:
            raise InvalidRequest(name, query[name], f"must have at most {_LONGEST} characters")
    job_id = query.get("job_id")
    tenant_id = query.get("tenant_id") or query.get("project_id")
    return service.feed.subscribe(
        None if after is None else int(after),
        job_id=None if job_id is None else JobId(job_id),
        look=looking(service, caller_of(connection), *([tenant_id] if tenant_id else [])),
        asides=query.get("readings") not in ("0", "false"),
    )


def _wants_readings(connection: HTTPConnection) -> bool:
    """GPU readings belong to no job and no tenant."""
    query = connection.query_params
    if query.get("readings") in ("0", "false"):
        return False
    if not caller_of(connection).may(Permission.SEE_CLUSTER):
        return False
    return not any(query.get(name) for name in ("job_id", "tenant_id", "project_id"))


@dataclass(frozen=True, slots=True)
class _Telling:
    """One stream: until the service ends, the reader goes, or it turns out to be slow."""

    service: Service
    streams: Streams
    readings: bool

    async def tell(self, subscription: Subscription, send: Send) -> None:
        async with asyncio.TaskGroup() as tasks:
            others = [tasks.create_task(self._tell_readings(send))] if self.readings else []
            while events := await subscription.batch():
                if subscription.is_behind:
                    await self.streams.pace(len(events))
                for at in range(0, len(events), _AT_ONCE):
                    await send([event_text(event) for event in events[at : at + _AT_ONCE]])
                    await asyncio.sleep(0)
                await asyncio.sleep(_GATHER_SECONDS)
            for task in others:
                task.cancel()

    async def _tell_readings(self, send: Send) -> None:
        newest = self.service.newest_readings
        position = newest.position
        while True:
            found = await newest.after(position)
            position = newest.position
            await send([text_of(reading_model(self.service, *each)) for each in found])


async def _lines(telling: _Telling, subscription: Subscription) -> AsyncIterator[bytes]:
    lines: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
    begin = subscription.position

    async def send(texts: Sequence[EventText]) -> None:
        await lines.put(b"".join(text.sse for text in texts))

    async def produce() -> None:
        try:
            async with subscription:
                await telling.tell(subscription, send)
        except* SchedulerError as errors:
            await lines.put(f"event: error\ndata: {_error_text(errors)}\n\n".encode())
        await lines.put(None)

    producer = asyncio.create_task(produce())
    try:
        # An id without data is no event, but where to go on from if no event comes at all.
        yield f": connected\nid: {begin}\n\n".encode()
        while True:
            try:
                async with asyncio.timeout(_HEARTBEAT_SECONDS):
                    line = await lines.get()
            except TimeoutError:
                yield b": alive\n\n"
                continue
            if line is None:
                return
            yield line
    finally:
        producer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await producer


def _error_text(errors: BaseExceptionGroup[SchedulerError]) -> str:
    """The first error in the shape that errors have everywhere."""
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, SchedulerError)
    content = body(http_error(found).code, found.message, found.details)
    return json.dumps(content)


def _sender(websocket: WebSocket) -> Send:
    async def send(texts: Sequence[EventText]) -> None:
        for text in texts:
            await websocket.send_text(text.json)

    return send


@contextlib.asynccontextmanager
async def _until_gone(websocket: WebSocket) -> AsyncIterator[None]:
    """Cancel the body when the reader closes: it says nothing else to us."""
    body = asyncio.current_task()

    async def listen() -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            while True:
                await websocket.receive()
        if body is not None:
            body.cancel()

    listener = asyncio.create_task(listen())
    try:
        yield
    finally:
        listener.cancel()


async def _close(websocket: WebSocket, code: int, reason: str) -> None:
    with contextlib.suppress(RuntimeError):
        await websocket.close(code, reason[:120])  # a close frame holds 123 bytes
