"""The service of a request, and who calls."""

from starlette.requests import HTTPConnection

from tgpu.api.rest.problem import ApiProblem
from tgpu.api.rest.rules import principal_of
from tgpu.service.identity.caller import Principal
from tgpu.service.service import Service


def service_of(request: HTTPConnection) -> Service:
    """The service of this app; 503 until it has loaded what it knows."""
    service = request.app.state.service
    if not isinstance(service, Service):
        raise ApiProblem(
            503, "SERVICE_NOT_READY", "the service is still starting; try again in a moment"
        )
    return service


def caller_of(request: HTTPConnection) -> Principal:
    return principal_of(request)
