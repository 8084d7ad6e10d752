"""The file of an upload: one part of a multipart form, or the body itself."""

from collections.abc import Callable

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
    return _file_part(bytes(body), boundary)


class _Parts:
    """The parts of a form as the parser reports them: names and contents."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.contents: list[bytearray] = []
        self.is_whole = False
        self._header = bytearray()
        self._value = bytearray()

    def callbacks(self) -> dict[str, Callable[..., None]]:
        return {
            "on_part_begin": self._begin,
            "on_part_data": lambda data, start, end: self.contents[-1].extend(data[start:end]),
            "on_header_begin": self._begin_header,
            "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self.names.append("")
        self.contents.append(bytearray())

    def _begin_header(self) -> None:
        self._header.clear()
        self._value.clear()

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            _, options = parse_options_header(bytes(self._value))
            self.names[-1] = options.get(b"name", b"").decode(errors="replace")

    def _end(self) -> None:
        self.is_whole = True


def _file_part(body: bytes, boundary: bytes) -> bytes:
    parts = _Parts()
    parser = MultipartParser(boundary, parts.callbacks())  # type: ignore[arg-type]
    try:
        parser.write(body)
        parser.finalize()
    except MultipartParseError as error:
        raise Problem(422, "VALIDATION_ERROR", f"file: the form is broken: {error}") from None
    if not parts.is_whole:
        raise Problem(422, "VALIDATION_ERROR", "file: the form ends too early; send it again")
    if "file" not in parts.names:
        named = ", ".join(parts.names) or "nothing"
        raise Problem(
            422,
            "VALIDATION_ERROR",
            f"file: the form has no file, but {named}; use -F file=@jobs.ndjson",
        )
    return bytes(parts.contents[parts.names.index("file")])
