"""Protection against web pages that send requests in the name of a local user."""

import re
import socket
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final

from tgpu.core.errors import Forbidden, Malformed
from tgpu.settings.model import is_loopback

# RFC 9110, 7.2, and RFC 3986, 3.2.2: a name or an address, and a port.
_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.~%!$&'()*+,;=-]+))(?::(\d{0,5}))?", re.A)


def host_name(headers: Mapping[str, str]) -> str:
    """What the request was sent to, without the port; "" where it does not say. Malformed."""
    host = headers.get("host", "")
    if not host:
        return ""
    found = _HOST.fullmatch(host)
    if found is None or (found[1] and not _is_address(found[1])) or int(found[3] or 0) > 65_535:
        raise Malformed("Host", host, "must be a name or an address, with a port or without")
    return (found[1] or found[2]).lower()


class WebPages:
    """Tells requests of web pages from those of programs.

    Any page that somebody opens here can send to this machine, and would be taken for them.
    Under a name of its own that leads here (DNS rebinding), it is told by the name; under its
    true name, by the header that browsers add.
    """

    def __init__(self, allowed_hosts: Iterable[str] = ()) -> None:
        """`allowed_hosts` are names by which this machine is asked for, besides its own."""
        names = {*allowed_hosts, socket.gethostname()}
        self._names = frozenset(name.lower().rstrip(".") for name in names if name)

    def refuse(self, headers: Mapping[str, str]) -> None:
        """Raises Forbidden, or Malformed."""
        name = host_name(headers)
        if not (is_loopback(name) or _is_address(name) or name.rstrip(".") in self._names):
            raise Forbidden(
                f"this service was asked for as {name[:80]!r}, which is not a name of this "
                "machine; use its address or localhost, add the name to api.allowed_hosts, or "
                "turn on authentication with auth.enabled"
            )
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != headers["host"].lower():
            raise Forbidden(f"pages of {origin[:80]} may not use this service")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
