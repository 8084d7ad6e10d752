"""Interceptor of the gRPC port: the same identities, roles, limits and audit log as for REST."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NoReturn

import grpc

from tgpu.api.auth.authenticator import Authenticator
from tgpu.api.auth.doors import NOBODY, NotServed, user_of
from tgpu.api.auth.open_calls import OpenCalls
from tgpu.api.auth.refusals import Refusals
from tgpu.api.errors import http_error
from tgpu.api.grpc.origin import GrpcOrigins
from tgpu.api.grpc.refusal import refuse as end_call
from tgpu.core.errors import (
    Forbidden,
    RateLimited,
    SchedulerError,
    Unauthenticated,
    Unavailable,
)
from tgpu.peers.peer import NOWHERE, Origin
from tgpu.service.identity.caller import LOCAL, Permission, Principal, Role
from tgpu.service.recording.audit import OK, Trail, following
from tgpu.service.service import Service
from tgpu.token_buckets import TokenBuckets

_SCHEDULER: Final = "SchedulerService"
# What is not here is for admins alone.
RULES: Final[dict[tuple[str, str], Permission]] = {
    (_SCHEDULER, "SubmitJob"): Permission.CHANGE_JOBS,
    (_SCHEDULER, "CancelJob"): Permission.CHANGE_JOBS,
    (_SCHEDULER, "PauseJob"): Permission.CHANGE_JOBS,
    (_SCHEDULER, "ResumeJob"): Permission.CHANGE_JOBS,
    (_SCHEDULER, "GetJobStatus"): Permission.READ,
    (_SCHEDULER, "ListJobs"): Permission.READ,
    (_SCHEDULER, "UpdateTenantQuota"): Permission.MANAGE_TENANTS,
    (_SCHEDULER, "GetMetrics"): Permission.SEE_CLUSTER,
    (_SCHEDULER, "GetClusterStatus"): Permission.READ,
    (_SCHEDULER, "WatchEvents"): Permission.READ,
    ("AgentService", "RegisterAgent"): Permission.CONTROL_GPUS,
    ("AgentService", "Heartbeat"): Permission.CONTROL_GPUS,
    ("AgentService", "ReportMetrics"): Permission.CONTROL_GPUS,
}
_CHANGES: Final = frozenset(
    {
        *("SubmitJob", "CancelJob", "PauseJob", "ResumeJob"),
        *("UpdateTenantQuota", "RegisterAgent"),
    }
)
_PUBLIC: Final = ("grpc.health.", "grpc.reflection.")

_caller: ContextVar[Principal] = ContextVar("grpc_caller", default=LOCAL)

if TYPE_CHECKING:  # the first is generic for the type checker alone
    Handler = grpc.RpcMethodHandler[Any, Any]
    Context = grpc.aio.ServicerContext[Any, Any]
    Call = Callable[[Any, Context], Coroutine[Any, Any, Any]]


def grpc_caller() -> Principal:
    """Who makes the call that is being served."""
    return _caller.get()


class GrpcGate(grpc.aio.ServerInterceptor):
    def __init__(
        self,
        authenticator: Authenticator,
        service: Callable[[], Service | None],
        buckets: TokenBuckets | None = None,
        refusals: Refusals | None = None,
        *,
        listening: tuple[str, int],
    ) -> None:
        """`buckets` and `refusals` are those of REST: a caller has one budget over both doors."""
        self._authenticator = authenticator
        self._service = service
        self._buckets = buckets or TokenBuckets(0, 1)
        self._refusals = refusals or Refusals()
        self._origins = GrpcOrigins(listening)
        self._calls = OpenCalls()

    def close(self) -> None:
        self._origins.close()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable["Handler | None"]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        path = str(handler_call_details.method).lstrip("/")
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        package, _, name = path.partition("/")
        call, make = _parts(handler)
        if path.startswith(_PUBLIC):
            return make(
                self._counted(call), handler.request_deserializer, handler.response_serializer
            )
        return make(
            self._guarded(
                call, (package.rpartition(".")[2], name), lasts=bool(handler.response_streaming)
            ),
            handler.request_deserializer,
            handler.response_serializer,
        )

    def _counted(self, call: Any) -> Any:
        """Of health and reflection: anybody may, and nobody more often than anything else."""

        async def counted(request: Any, context: "Context") -> Any:
            await self._take_of_address(context)
            return await call(request, context)

        async def counted_stream(requests: Any, context: "Context") -> AsyncIterator[Any]:
            await self._take_of_address(context)
            async for answer in call(requests, context):
                yield answer

        return counted_stream if inspect.isasyncgenfunction(call) else counted

    async def _take_of_address(self, context: "Context") -> None:
        try:
            self._take(f"from {self._origins.of(context.peer()).address}")
        except RateLimited as error:
            self._refusals.count("grpc", http_error(error).code)
            await end_call(context, error)

    def _guarded(self, call: "Call", method: tuple[str, str], *, lasts: bool) -> "Call":
        """For those who may make the call. Inside of it, where the caller's address is known."""
        name = method[1]

        async def guarded(request: Any, context: "Context") -> Any:
            trail = Trail(NOBODY.name, name, context.peer() or "")
            try:
                origin = self._origins.of(context.peer())
                headers, principal = await self._identify(context, origin)
                trail.identify(principal, user_of(origin))
                self._check(principal, method, origin)
            except SchedulerError as error:
                await self._refuse(context, trail, error)
            _caller.set(principal)
            if lasts:
                return await self._lasting(call(request, context), context, headers, principal)
            if name not in _CHANGES:
                return await call(request, context)
            return await self._audited(call, request, context, trail)

        return guarded

    async def _identify(
        self, context: "Context", origin: Origin
    ) -> tuple[dict[str, str], Principal]:
        metadata = context.invocation_metadata() or ()
        headers = {str(key).lower(): _text(value) for key, value in metadata}
        if context.cancelled():  # another connection may have its address by now
            origin = NOWHERE
        try:
            return headers, await self._authenticator.authenticate(headers, origin)
        except (Unauthenticated, NotServed, Unavailable) as error:
            self._take(f"from {origin.address}", error)
            raise

    def _check(self, principal: Principal, method: tuple[str, str], origin: Origin) -> None:
        self._take(principal.actor if principal != LOCAL else f"from {origin.address}")
        permission = RULES.get(method)
        if permission is not None:
            principal.require(permission)
        elif principal.role is not Role.ADMIN or principal.tenants is not None:
            raise Forbidden("this call is for admins", [{"needs": str(Role.ADMIN)}])

    def _take(self, caller: str, cause: SchedulerError | None = None) -> None:
        if wait := self._buckets.take(caller):
            raise RateLimited(wait) from cause

    async def _lasting(
        self,
        call: Coroutine[Any, Any, Any],
        context: "Context",
        headers: dict[str, str],
        principal: Principal,
    ) -> None:
        sentence = await self._calls.run(call, self._authenticator.lapse(headers, principal))
        if sentence is not None:
            await end_call(context, Unauthenticated(sentence))

    async def _audited(self, call: "Call", request: Any, context: "Context", trail: Trail) -> Any:
        with following(trail):
            try:
                return await call(request, context)
            finally:
                if not trail.recorded:
                    code = context.code()
                    await self._record(trail, OK if not code else _name(code))

    async def _refuse(self, context: "Context", trail: Trail, error: SchedulerError) -> NoReturn:
        code = http_error(error).code
        self._refusals.count("grpc", code)
        if trail.action in _CHANGES and not isinstance(error, RateLimited):
            await self._record(trail, code, error.message)
        await end_call(context, error)

    async def _record(self, trail: Trail, outcome: str, detail: str = "") -> None:
        detail = detail or ("nothing was changed" if outcome == OK else "")
        is_stranger = trail.actor == NOBODY.name
        row = (
            self._refusals.row(trail, outcome, detail)
            if is_stranger
            else trail.row(outcome, detail)
        )
        if row is None:
            return

        service = self._service()
        if service is None:
            return
        try:
            await service.recorder.add_audit_row(row)
        except Unavailable:
            return  # the store's own trouble is told elsewhere


def _parts(handler: "Handler") -> tuple["Call", Callable[..., "Handler"]]:
    """What answers a call, and what makes a handler of such a thing."""
    kind = bool(handler.request_streaming), bool(handler.response_streaming)
    parts: dict[tuple[bool, bool], tuple[Any, Callable[..., Handler]]] = {
        (False, False): (handler.unary_unary, grpc.unary_unary_rpc_method_handler),
        (False, True): (handler.unary_stream, grpc.unary_stream_rpc_method_handler),
        (True, False): (handler.stream_unary, grpc.stream_unary_rpc_method_handler),
        (True, True): (handler.stream_stream, grpc.stream_stream_rpc_method_handler),
    }
    return parts[kind]


def _name(code: Any) -> str:
    return code.name if isinstance(code, grpc.StatusCode) else grpc.StatusCode(code).name


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")
