"""The composition root: builds a service from settings, and serves it."""

from tgpu.app.compose import make_notices, make_service
from tgpu.app.refusal import CannotServe, CannotServeYet, EndedItself
from tgpu.app.secret_files import check_secret_files
from tgpu.app.serve import MUST_RESTART, serve

__all__ = [
    "MUST_RESTART",
    "CannotServe",
    "CannotServeYet",
    "EndedItself",
    "check_secret_files",
    "make_notices",
    "make_service",
    "serve",
]
