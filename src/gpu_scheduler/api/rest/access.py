"""How a request reaches the service."""

from starlette.requests import HTTPConnection

from gpu_scheduler.api.rest.problem import Problem
from gpu_scheduler.service.service import Service


def service_of(request: HTTPConnection) -> Service:
    """The service of this app; 503 until it has loaded what it knows."""
    service = request.app.state.service
    if not isinstance(service, Service):
        raise Problem(
            503, "SERVICE_NOT_READY", "the service is still starting; try again in a moment"
        )
    return service
