"""The answer sent before we close a connection without a complete request."""

import json
from http import HTTPStatus


def refusal(status: HTTPStatus, code: str, message: str) -> bytes:
    """In the shape that all errors have; the connection ends with it."""
    body = json.dumps({"error": {"code": code, "message": message, "details": []}}).encode()
    retry = b"Retry-After: 5\r\n" if status in (429, 503) else b""
    return (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
        + b"Content-Type: application/json\r\nConnection: close\r\nCache-Control: no-store\r\n"
        + retry
        + f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
