"""Why a service does not start."""


class CannotServe(Exception):
    """Why the service does not start, with what to do about it, in a sentence."""
