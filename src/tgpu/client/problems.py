"""Why a connection failed, in our words, with what to write instead."""

import socket
import ssl
from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httpx

from tgpu.client.target import Target
from tgpu.text.system_words import system_words

_PROBE_SECONDS: Final = 1.0
_CERTIFICATE: Final = (
    "its certificate cannot be verified: set TGPU_CA_FILE to the file of its certificate authority"
)
# What OpenSSL says when the other end does not speak TLS.
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH")
_NO_NAME: Final = "no machine has this name"
# Of servers that speak HTTP/2 alone, as that of gRPC: what they begin with is no HTTP/1.
_HTTP_2: Final = ("illegal request line", "illegal status line", "malformed", "peer disconnected")
GRPC: Final = (
    "the server there does not speak HTTP/1: is it the gRPC port (api.grpc_port)? `tgpu` uses "
    "the HTTP port (api.http_port, 8080 by default)"
)


class ConnectionProblem(NamedTuple):
    sentence: str
    is_stranger: bool = False  # what stands there is no scheduler, and has done nothing


def problem_of(target: Target, error: httpx.HTTPError) -> ConnectionProblem:
    """What stopped a request."""
    if isinstance(error, httpx.TimeoutException):
        return ConnectionProblem("no answer in time")
    if isinstance(error, httpx.UnsupportedProtocol):
        return ConnectionProblem("the address must begin with http:// or https://")
    text = str(error).lower()
    if isinstance(error, httpx.ConnectError):
        return ConnectionProblem(_of_connecting(target, error, text))
    if isinstance(error, httpx.RemoteProtocolError) and any(word in text for word in _HTTP_2):
        return ConnectionProblem(GRPC, is_stranger=True)
    if _speaks_tls(target):
        sentence = f"it speaks https: write {_with_scheme(target, 'https')}"
        return ConnectionProblem(sentence, is_stranger=True)
    return ConnectionProblem(_of_system(error, "it closed the connection"))


def _of_connecting(target: Target, error: httpx.ConnectError, text: str) -> str:
    tls = next((each for each in _causes(error) if isinstance(each, ssl.SSLError)), None)
    if tls is not None:
        return _of_tls(target, tls)
    if "certificate" in text:
        return _CERTIFICATE
    if "ssl" in text:
        return _plain(target)
    if any(isinstance(each, socket.gaierror) for each in _causes(error)) or "name or " in text:
        return _NO_NAME
    return _of_system(error, "the connection failed")


def _of_tls(target: Target, error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _CERTIFICATE
    if (error.reason or "") in _NOT_TLS:
        return _plain(target)
    return "no encrypted connection can be made to it"


def _plain(target: Target) -> str:
    return f"it does not speak https: write {_with_scheme(target, 'http')}"


def _of_system(error: httpx.HTTPError, otherwise: str) -> str:
    causes = (each for each in _causes(error) if isinstance(each, OSError) and each.errno)
    cause = next(causes, None)
    return otherwise if cause is None else system_words(cause)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _with_scheme(target: Target, scheme: str) -> str:
    return f"{scheme}://{target.base_url.partition('://')[2]}"


def _speaks_tls(target: Target) -> bool:
    """Asked only when a plain request got no answer: a server of TLS closes without a word."""
    parts = urlsplit(target.base_url)
    if target.socket is not None or parts.scheme != "http" or parts.hostname is None:
        return False
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        address = (parts.hostname, parts.port or 80)
        with (
            socket.create_connection(address, _PROBE_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname),
        ):
            return True
    except (OSError, ValueError):
        return False
