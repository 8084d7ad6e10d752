"""The pages for people: the start at `/`, and the API to read and to try out at `/docs`.

Nothing in them comes from another host, so that they work on a machine without a way out; every
address is relative, so that they work behind a gateway and under a prefix. Swagger UI's files are
those of a package that carries them.
"""

from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from tgpu import __version__
from tgpu.api.auth.doors import NOBODY
from tgpu.api.rest.problem import ApiProblem
from tgpu.api.rest.rules import principal_of
from tgpu.api.rest.start_page import start_page, start_policy

_PACKAGE: Final = "fastapi_swagger"
_SCRIPT: Final = "start.js"
_TYPES: Final = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
    _SCRIPT: "text/javascript",
}
# Its styles draw arrows and locks from data: addresses. No script in the page, no other host.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# A day: their addresses change with the versions.
_KEPT: Final = {"Cache-Control": "public, max-age=86400", "Content-Security-Policy": _POLICY}


def routes() -> list[Route]:
    """Not a part of the OpenAPI: they are for people."""
    ends = {
        "/": _start,
        "/docs": _docs,
        "/docs/": _to_docs,
        "/redoc": _redoc,
        "/docs/{name}": _file,
    }
    return [
        Route(path, end, methods=["GET"], include_in_schema=False) for path, end in ends.items()
    ]


async def _start(request: Request) -> Response:
    page = start_page(is_known=principal_of(request) != NOBODY)
    return HTMLResponse(page, headers={"Content-Security-Policy": start_policy(page)})


async def _docs(_: Request) -> Response:
    return HTMLResponse(_docs_page(), headers={"Content-Security-Policy": _POLICY})


async def _to_docs(_: Request) -> Response:
    return RedirectResponse("../docs", 308)


async def _redoc(_: Request) -> Response:
    return RedirectResponse("docs", 308)


async def _file(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _TYPES:
        raise ApiProblem(
            404, "NOT_FOUND", "there is no such file; GET /docs is the page of the API"
        )
    if name == _SCRIPT:
        return Response(_START, media_type=_TYPES[name], headers=_KEPT)
    return FileResponse(_folder() / name, media_type=_TYPES[name], headers=_KEPT)


@cache
def _docs_page() -> str:
    _folder()  # where it is missing, that is what to say
    tag = f"{__version__}-{version(_PACKAGE)}"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The API of tgpu</title>
<link rel="icon" type="image/png" href="docs/favicon-32x32.png?{tag}">
<link rel="stylesheet" href="docs/swagger-ui.css?{tag}">
</head><body>
<div id="api">This page needs JavaScript;
<a href="openapi.json">openapi.json</a> says the same.</div>
<script src="docs/swagger-ui-bundle.js?{tag}"></script>
<script src="docs/{_SCRIPT}?{tag}"></script>
</body></html>
"""


@cache
def _folder() -> Path:
    # Found and not imported: its code is for other uses, and is not run.
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ApiProblem(
            503, "UNAVAILABLE", f"/docs needs the package {_PACKAGE}; install tgpu again"
        )
    return Path(spec.origin).parent / "resources"


# The document names no server, and under a prefix this page alone knows where the service is.
_START: Final = """"use strict";
fetch("openapi.json").then((answer) => answer.json()).then((spec) => {
  spec.servers = [{ url: new URL(".", location.href).pathname.replace(/\\/$/, "") || "/" }];
  SwaggerUIBundle({
    spec,
    dom_id: "#api",
    deepLinking: true,
    docExpansion: "list",
    filter: true,
    displayRequestDuration: true,
    validatorUrl: null,
  });
}).catch((error) => {
  document.getElementById("api").textContent =
    "openapi.json could not be read; is the service still there? (" + error.message + ")";
});
"""
