"""Errors that keep a service from starting or continuing."""


class CannotServe(Exception):
    """Why the service does not start, with what to do about it, in a sentence."""


class CannotServeYet(CannotServe):
    """The same, where another try a little later may work: a database that does not answer."""


class EndedItself(Exception):
    """Why a service ended that nobody asked to: whoever started it should start it again."""
