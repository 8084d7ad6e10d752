"""The composition root: makes a service out of settings, and serves it."""

from gpu_scheduler.app.compose import make_notices, make_service
from gpu_scheduler.app.refusal import CannotServe, CannotServeYet, EndedItself
from gpu_scheduler.app.secret_files import check_secret_files
from gpu_scheduler.app.serve import MUST_RESTART, serve

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
