"""Which headers pass the gateway, and what it says of the caller itself."""

import hashlib
import os
import re
from dataclasses import dataclass
from typing import Any, Final

from tgpu.gateway.answer import Headers
from tgpu.log import request_id
from tgpu.peers.protocol import origin_of

# RFC 9110, 7.6.1: these are about one connection, not about the message.
_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# Anybody can send these; only what we saw ourselves is passed on.
_CLAIMS: Final = frozenset(
    {
        b"forwarded",
        b"via",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-proto",
        b"x-real-ip",
    }
)
_CREDENTIALS: Final = (b"authorization", b"x-api-key")
# By these the service tells web pages from programs, where it does not ask who calls.
_PAGE: Final = (b"host", b"origin")
_PORT: Final = re.compile(rb":\d*$")
_ACCEPT: Final = b"accept"
CALLER: Final = b"x-tgpu-caller"
_REQUEST_ID: Final = b"x-request-id"


@dataclass(frozen=True, slots=True)
class Caller:
    """What tells callers apart: what they show, and where they come from."""

    address: str
    credentials: tuple[tuple[bytes, bytes], ...] = ()
    digest: str = ""  # of the credentials; "" where there are none
    page: tuple[tuple[bytes, bytes], ...] = ()  # under which name, and from which page, they ask
    # The service sees our connection in place of theirs. Only who could make such a connection
    # themselves, this gateway's own user and root, may be taken for whoever the service sees.
    is_owner: bool = False
    inode: int = 0  # of the owner's socket, by which their processes can be found


def caller_of(scope: dict[str, Any], *, insists: bool = False) -> Caller:
    """`insists`: callers of other machines count as the owner, because the owner said so."""
    client = scope.get("client")
    shown = tuple(header for header in scope["headers"] if header[0] in _CREDENTIALS)
    address = str(client[0]) if client else "local"
    page = tuple(header for header in scope["headers"] if header[0] in _PAGE)
    digest = digest_of(shown) if shown else ""
    peer = origin_of(scope).peer
    inode = 0 if peer is None else peer.inode or 0
    return Caller(address, shown, digest, page, _is_owner(scope, insists=insists), inode)


def _is_owner(scope: dict[str, Any], *, insists: bool) -> bool:
    if any(name in _CLAIMS for name, _ in scope["headers"]):
        return False  # another proxy's connection
    origin = origin_of(scope)
    if origin.peer is not None:
        return origin.peer.uid in (0, os.geteuid())
    return insists and not origin.is_here


def page_key(caller: Caller) -> tuple[tuple[bytes, bytes], ...]:
    """What the service can tell from `page`: the name without the port, and whose page it is.

    Gateways on different ports share answers by this.
    """
    page = dict(caller.page)
    host, origin = page.get(b"host", b""), page.get(b"origin", b"")
    if len(page) != len(caller.page):
        return caller.page  # a header twice: nobody's answer but theirs
    is_own = origin.partition(b"://")[2] == host
    return ((b"host", _PORT.sub(b"", host)), (b"origin", b"own" if is_own else origin))


def digest_of(parts: tuple[tuple[bytes, bytes], ...]) -> str:
    """Never the credentials themselves: it is part of names in Redis."""
    hashed = hashlib.sha256()
    for name, value in parts:
        hashed.update(b"%d:%b%d:%b" % (len(name), name, len(value), value))
    return hashed.hexdigest()


def header(scope: dict[str, Any], wanted: bytes) -> bytes:
    """All values of a header in one, as RFC 9110 joins them; empty where there is none."""
    return b", ".join([value for name, value in scope["headers"] if name == wanted])


def has_body(scope: dict[str, Any]) -> bool:
    if header(scope, b"transfer-encoding"):
        return True
    return header(scope, b"content-length") not in (b"", b"0")


def to_service(scope: dict[str, Any], caller: Caller) -> Headers:
    """A request's headers as the service gets them."""
    named = _named_hops(scope["headers"])
    dropped = _HOP | _CLAIMS | named | {b"expect", CALLER, _REQUEST_ID}
    kept = [(name, value) for name, value in scope["headers"] if name not in dropped]
    return kept + _ours(scope, caller)


def of_a_read(scope: dict[str, Any], caller: Caller) -> Headers:
    """The headers that an answer may depend on: what is cached depends on nothing else."""
    accept = header(scope, _ACCEPT)
    shown = [*caller.page, *caller.credentials, *([(_ACCEPT, accept)] if accept else [])]
    return [*shown, (b"accept-encoding", b"identity"), *_ours(scope, caller)]


def to_caller(headers: Headers) -> Headers:
    """An answer's headers as the caller gets them."""
    lowered = [(name.lower(), value) for name, value in headers]
    named = _named_hops(lowered)
    return [(name, value) for name, value in lowered if name not in _HOP and name not in named]


def passed_on(caller: Caller) -> Headers:
    """By this the service knows that a request is not of the one whose connection it sees.

    Of the owner's requests it is told by another header, which counts where it asks for keys: what
    our own user may do there is not lent to anybody.
    """
    if caller.is_owner:
        return [(CALLER, b"%d" % caller.inode)]
    return [(b"x-forwarded-for", caller.address.encode())]


def standing(caller: Caller) -> tuple[tuple[bytes, bytes], ...]:
    """What an answer depends on: gateways of different users are answered differently."""
    owner = b"%d" % os.geteuid() if caller.is_owner else b""
    return (*caller.credentials, *page_key(caller), (b"owner", owner))


def _ours(scope: dict[str, Any], caller: Caller) -> Headers:
    scheme = {"ws": b"http", "wss": b"https"}.get(scope["scheme"], scope["scheme"].encode())
    ours = [*passed_on(caller), (b"x-forwarded-proto", scheme)]
    number = request_id.get()
    return ours if number is None else [*ours, (_REQUEST_ID, number.encode())]


def _named_hops(headers: Headers) -> frozenset[bytes]:
    """Headers that `Connection` declares to be about this connection too."""
    found = [value for name, value in headers if name == b"connection"]
    return frozenset(part.strip().lower() for value in found for part in value.split(b","))
