"""The file of an upload as it comes in: one part of a multipart form, or the body itself."""

from collections.abc import AsyncIterator, Callable

from fastapi import Request
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.exceptions import HTTPException

from gpu_scheduler.api.rest.problem import Problem


async def file_pieces(request: Request) -> AsyncIterator[bytes]:
    """The file in pieces of some ten kilobytes. Raises Problem, also after some of them."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    form = None
    if kind == b"multipart/form-data":
        boundary = options.get(b"boundary")
        if boundary is None:
            raise Problem(422, "VALIDATION_ERROR", "file: the form has no boundary")
        form = _Form(boundary)
    try:
        async for piece in request.stream():
            content = piece if form is None else form.feed(piece)
            if content:
                yield content
    except HTTPException as error:  # more than the limit
        raise Problem(error.status_code, "TOO_LARGE", str(error.detail)) from None
    if form is not None:
        form.end()


class _Form:
    """The part named `file` of a form; the others are passed over."""

    def __init__(self, boundary: bytes) -> None:
        self._names: list[str] = []
        self._is_whole = False
        self._header = bytearray()
        self._value = bytearray()
        self._content: list[bytes] = []
        self._parser = MultipartParser(boundary, self._callbacks())  # type: ignore[arg-type]

    def feed(self, piece: bytes) -> bytes:
        try:
            self._parser.write(piece)
        except MultipartParseError as error:
            raise _broken(error) from None
        content, self._content = self._content, []
        return b"".join(content)

    def end(self) -> None:
        try:
            self._parser.finalize()
        except MultipartParseError as error:
            raise _broken(error) from None
        if not self._is_whole:
            raise Problem(422, "VALIDATION_ERROR", "file: the form ends too early; send it again")
        if "file" not in self._names:
            named = ", ".join(self._names) or "nothing"
            raise Problem(
                422,
                "VALIDATION_ERROR",
                f"file: the form has no file, but {named}; use -F file=@jobs.ndjson",
            )

    def _callbacks(self) -> dict[str, Callable[..., None]]:
        return {
            "on_part_begin": lambda: self._names.append(""),
            "on_part_data": self._data,
            "on_header_begin": self._begin_header,
            "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_end": self._end,
        }

    def _data(self, data: bytes, start: int, end: int) -> None:
        # Of several parts with this name the first counts.
        if self._names[-1] == "file" and self._names.count("file") == 1:
            self._content.append(data[start:end])

    def _begin_header(self) -> None:
        self._header.clear()
        self._value.clear()

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            _, options = parse_options_header(bytes(self._value))
            self._names[-1] = options.get(b"name", b"").decode(errors="replace")

    def _end(self) -> None:
        self._is_whole = True


def _broken(error: MultipartParseError) -> Problem:
    return Problem(422, "VALIDATION_ERROR", f"file: the form is broken: {error}")
