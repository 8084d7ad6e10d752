"""/api/v1/nodes: the machines, those that report through an agent included."""

from fastapi import APIRouter, Request, Response

from tgpu.api.rest.context import service_of
from tgpu.api.rest.parameters import Name
from tgpu.api.translate.nodes import node_model, node_models, refuse_own
from tgpu.wire.nodes_v1 import NodeList, NodeModel

router = APIRouter(prefix="/api/v1/nodes", tags=["cluster"])


@router.get("")
async def list_nodes(request: Request) -> NodeList:
    """Every machine: online or not, its GPUs and their readings."""
    return NodeList(nodes=node_models(service_of(request)))


@router.get("/{name}")
async def get_node(request: Request, name: Name) -> NodeModel:
    """One machine."""
    return node_model(service_of(request), name)


@router.delete("/{name}", status_code=204)
async def forget_node(request: Request, name: Name) -> Response:
    """Remove an offline machine; its agent can register again."""
    service = service_of(request)
    refuse_own(service, name)
    await service.agent_nodes.forget(name)
    return Response(status_code=204)
