"""Path and query parameters, each with a maximum size; unknown ones are rejected."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final

from annotated_types import MaxLen
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import HTTPConnection

from tgpu.core.errors import InvalidRequest

# A name of any kind: of a job, a tenant, or "tenant:queue". A bit longer than those can be, so that
# what is only a little too long is not found, as any other name that nobody has.
Name = Annotated[str, MaxLen(512)]
Words = Annotated[str, MaxLen(4096)]  # to search for, or several with commas

# Probes ask there, and put into the query what they like.
_ANY_QUERY: Final = ("/api/v1/health",)
_LONGEST: Final = 64  # characters of an unknown name that are repeated


async def check_parameters(connection: HTTPConnection) -> None:
    """Before every path of the API: a filter that is not there must not look as if it were, and a
    change must not leave out what it was told. Raises InvalidRequest."""
    route = connection.scope.get("route")
    if not connection.scope.get("query_string") or not isinstance(route, APIRoute):
        return
    if not route.path.startswith("/api/v1/") or route.path in _ANY_QUERY:
        return
    known = _KNOWN.get(route.endpoint)
    if known is None:
        known = _KNOWN[route.endpoint] = parameters_of(route)
    for name, value in connection.query_params.multi_items():
        if name not in known:
            raise _unknown(name, value, f"{connection.scope['method']} {route.path}", known)


def _unknown(name: str, value: str, path: str, known: tuple[str, ...]) -> InvalidRequest:
    there_are = f"there are: {', '.join(known)}" if known else "it has none"
    field = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."
    return InvalidRequest(field, value, f"{path} has no such parameter; {there_are}")


def parameters_of(route: APIRoute) -> tuple[str, ...]:
    """The names that its query may have, in the order in which they are declared."""
    described = (route.openapi_extra or {}).get("parameters", [])
    return (
        *_declared(route.dependant),
        *(str(each["name"]) for each in described if each["in"] == "query"),
    )


def _declared(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for other in dependant.dependencies:
        yield from _declared(other)


_KNOWN: Final[dict[Callable[..., Any], tuple[str, ...]]] = {}  # by what serves the path
