"""The file of an upload: one part of a multipart form, or the body itself."""

from fastapi import Request
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from gpu_scheduler.api.rest.problem import Problem

MAX_BYTES = 1 << 30  # 1 GiB: several million jobs, and a bound on what one call may take


async def uploaded_file(request: Request) -> bytes:
    """The whole file in memory: it is about to become jobs in memory anyway."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            raise Problem(413, "TOO_LARGE", f"a file has at most {MAX_BYTES} bytes; split it")
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        return bytes(body)
    boundary = options.get(b"boundary")
    if boundary is None:
        raise Problem(422, "VALIDATION_ERROR", "file: the form has no boundary")
    return _first_file(bytes(body), boundary)


def _first_file(body: bytes, boundary: bytes) -> bytes:
    parts: list[bytearray] = []
    parser = MultipartParser(
        boundary,
        {
            "on_part_begin": lambda: parts.append(bytearray()),
            "on_part_data": lambda data, start, end: parts[-1].extend(data[start:end]),
        },
    )
    try:
        parser.write(body)
        parser.finalize()
    except MultipartParseError as error:
        raise Problem(422, "VALIDATION_ERROR", f"file: the form is broken: {error}") from None
    if not parts:
        raise Problem(
            422, "VALIDATION_ERROR", "file: the form has no file; use -F file=@jobs.ndjson"
        )
    return bytes(parts[0])
