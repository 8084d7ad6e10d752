"""`AgentService`: what `tgpu agent` calls on the GPU machines."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from typing import Any
from urllib.parse import unquote

from tgpu.api.grpc.decoding import decoded
from tgpu.api.grpc.messages import fields_of
from tgpu.api.grpc.refusal import Context, NotReady, answering
from tgpu.api.translate.nodes import readings_of, registration_of
from tgpu.service.recording.clock import WallClock
from tgpu.service.service import Service
from tgpu.text.instants import utc_millis_text
from tgpu.wire import scheduler_pb2 as pb
from tgpu.wire import scheduler_pb2_grpc as rpc
from tgpu.wire.nodes_v1 import AgentBeat, AgentRegistration


class AgentServicer(rpc.AgentServiceServicer):
    def __init__(self, service: Callable[[], Service | None]) -> None:
        self._find_service = service

    @answering
    async def RegisterAgent(
        self, request: pb.RegisterAgentRequest, context: Context
    ) -> pb.RegisterAgentReply:
        service = self._service()
        agents = service.agents
        body = AgentRegistration.model_validate(fields_of(request))
        await agents.register(registration_of(body, _address(context.peer())), body.instance)
        await service.agent_nodes.observe(body.name)
        return pb.RegisterAgentReply(
            name=body.name, offline_after_seconds=agents.offline_after_seconds
        )

    @answering
    async def Heartbeat(
        self, requests: AsyncIterator[pb.HeartbeatRequest], context: Context
    ) -> None:
        with ExitStack() as stack:
            is_first = True
            async for request in requests:
                beat = await _take(self._service(), decoded(request))
                if is_first:
                    is_first = False
                    agents = self._service().agents
                    stack.enter_context(agents.streaming(beat.name, beat.instance))
                await context.write(pb.HeartbeatReply(at=utc_millis_text(WallClock().now())))

    @answering
    async def ReportMetrics(
        self, request: pb.ReportMetricsRequest, context: Context
    ) -> pb.ReportMetricsReply:
        await _take(self._service(), request)
        return pb.ReportMetricsReply()

    def _service(self) -> Service:
        service = self._find_service()
        if service is None:
            raise NotReady
        return service


async def _take(
    service: Service, request: pb.HeartbeatRequest | pb.ReportMetricsRequest
) -> AgentBeat:
    content: dict[str, Any] = fields_of(request)
    beat = AgentBeat.model_validate(content)
    readings = None if beat.readings is None else readings_of(beat.readings)
    service.agents.hear(beat.name, beat.instance, readings)
    if readings is not None:
        await service.agent_nodes.observe(beat.name)
    return beat


def _address(peer: str) -> str:
    """The caller's host: "ipv4:10.0.0.7:41234", "ipv6:%5B::1%5D:41234"."""
    host = unquote(peer).partition(":")[2].rpartition(":")[0]
    return host.strip("[]") or peer
