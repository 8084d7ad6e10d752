"""The composition root: makes a service out of settings, and serves it."""

from gpu_scheduler.app.compose import make_notices, make_service
from gpu_scheduler.app.refusal import CannotServe
from gpu_scheduler.app.serve import serve

__all__ = ["CannotServe", "make_notices", "make_service", "serve"]
