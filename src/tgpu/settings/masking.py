"""Secrets made unreadable: whole values, and the passwords inside addresses."""

import re
from typing import Final

MASK: Final = "********"

# user:password@ in an address, and password=… in its query.
_LOGIN = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^:/@\s]*):\S*@")
_PARAMETER = re.compile(r"(?P<name>[?&]password)=[^&\s'\"]*")


def mask_url(text: str) -> str:
    """A text without the passwords of the addresses in it."""
    return _PARAMETER.sub(rf"\g<name>={MASK}", _LOGIN.sub(rf"\g<before>:{MASK}@", text))
