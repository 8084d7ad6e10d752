"""The gate of the gRPC port: the same identities, roles, limits and audit log as for REST."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import grpc

from gpu_scheduler.api.auth.authenticator import Authenticator
from gpu_scheduler.api.errors import http_error
from gpu_scheduler.api.grpc.refusal import refuse as end_call
from gpu_scheduler.api.limits import TokenBuckets
from gpu_scheduler.core.errors import Forbidden, RateLimited, SchedulerError, Unavailable
from gpu_scheduler.core.state import State
from gpu_scheduler.peers.peer import NOWHERE
from gpu_scheduler.service.audit import OK, Trail, following
from gpu_scheduler.service.identity import LOCAL, Permission, Principal, Role
from gpu_scheduler.service.service import Service
from gpu_scheduler.service.writer import Decision

_SCHEDULER: Final = "SchedulerService"
# What is not here is for admins alone.
RULES: Final[dict[tuple[str, str], Permission]] = {
    (_SCHEDULER, "SubmitJob"): Permission.CHANGE_JOBS,
    (_SCHEDULER, "CancelJob"): Permission.CHANGE_JOBS,
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
_CHANGES: Final = frozenset({"SubmitJob", "CancelJob", "UpdateTenantQuota", "RegisterAgent"})
_PUBLIC: Final = ("grpc.health.", "grpc.reflection.")

_caller: ContextVar[Principal] = ContextVar("grpc_caller", default=LOCAL)

if TYPE_CHECKING:  # the first is generic for the type checker alone
    Handler = grpc.RpcMethodHandler[Any, Any]
    Context = grpc.aio.ServicerContext[Any, Any]


def grpc_caller() -> Principal:
    """Who makes the call that is being served."""
    return _caller.get()


class GrpcGate(grpc.aio.ServerInterceptor):
    def __init__(
        self,
        authenticator: Authenticator,
        service: Callable[[], Service | None],
        buckets: TokenBuckets | None = None,
    ) -> None:
        self._authenticator = authenticator
        self._service = service
        self._buckets = buckets or TokenBuckets(0, 1)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable["Handler | None"]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        path = str(handler_call_details.method).lstrip("/")
        handler = await continuation(handler_call_details)
        if handler is None or path.startswith(_PUBLIC):
            return handler
        package, _, name = path.partition("/")
        try:
            principal = await self._admit(handler_call_details, package.rpartition(".")[2], name)
        except SchedulerError as error:
            return await self._refusing(handler, name, error)
        _caller.set(principal)
        if name not in _CHANGES or handler.unary_unary is None:
            return handler
        return grpc.unary_unary_rpc_method_handler(
            self._audited(handler.unary_unary, principal, name),
            handler.request_deserializer,
            handler.response_serializer,
        )

    async def _admit(
        self, details: grpc.HandlerCallDetails, service: str, method: str
    ) -> Principal:
        metadata = details.invocation_metadata or ()
        headers = {str(key).lower(): _text(value) for key, value in metadata}
        principal = await self._authenticator.authenticate(headers, NOWHERE)
        permission = RULES.get((service, method))
        if permission is not None:
            principal.require(permission)
        elif principal.role is not Role.ADMIN or principal.tenants is not None:
            raise Forbidden("this call is for admins", [{"needs": str(Role.ADMIN)}])
        if wait := self._buckets.take(principal.actor):
            raise RateLimited(wait)
        return principal

    def _audited(
        self, call: Callable[[Any, Any], Any], principal: Principal, name: str
    ) -> Callable[[Any, Any], Awaitable[Any]]:
        async def audited(request: Any, context: "Context") -> Any:
            _caller.set(principal)
            with following(Trail(principal.actor, name, context.peer() or "")) as trail:
                try:
                    return await call(request, context)
                finally:
                    if not trail.recorded:
                        code = context.code()
                        await self._record(trail, OK if not code else _name(code))

        return audited

    async def _refusing(self, handler: "Handler", name: str, error: SchedulerError) -> "Handler":
        async def refuse(_: Any, context: "Context") -> None:
            code = http_error(error)
            if name in _CHANGES:
                trail = Trail("nobody", name, context.peer() or "")
                await self._record(trail, code.code, error.message)
            await end_call(context, error)

        made = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }[bool(handler.request_streaming), bool(handler.response_streaming)]
        return made(refuse, handler.request_deserializer, handler.response_serializer)

    async def _record(self, trail: Trail, outcome: str, detail: str = "") -> None:
        row = trail.row(outcome, detail or ("nothing was changed" if outcome == OK else ""))

        def decide(_: State) -> Decision[None]:
            return Decision(None, audit=[row])

        service = self._service()
        if service is None:
            return
        try:
            await service.writer.do(decide, ())
        except Unavailable:
            return  # the store's own trouble is told elsewhere


def _name(code: Any) -> str:
    return code.name if isinstance(code, grpc.StatusCode) else grpc.StatusCode(code).name


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")
