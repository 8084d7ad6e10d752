"""The file of an upload as it comes in: one part of a multipart form, or the body itself."""

from collections.abc import AsyncIterator, Callable
from typing import Final

from fastapi import Request
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.exceptions import HTTPException

from tgpu.api.rest.problem import ApiProblem

_PIECE: Final = 65_536  # bytes
_MOST_PARTS: Final = 64
_LONGEST_HEADER: Final = 4_096
_SHOWN: Final = 40  # characters of a part's name that a sentence quotes


async def gathered(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same in larger pieces: a body that comes byte by byte must not cost a look for each."""
    kept = bytearray()
    async for piece in pieces:
        kept += piece
        if len(kept) >= _PIECE:
            yield bytes(kept)
            kept.clear()
    if kept:
        yield bytes(kept)


async def body_pieces(request: Request) -> AsyncIterator[bytes]:
    """The body itself in pieces. Raises Problem, also after some of them."""
    try:
        async for piece in request.stream():
            yield piece
    except HTTPException as error:  # more than the limit
        raise ApiProblem(error.status_code, "TOO_LARGE", str(error.detail)) from None


async def file_pieces(request: Request) -> AsyncIterator[bytes]:
    """The file in pieces of some ten kilobytes. Raises Problem, also after some of them."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    form = None
    if kind == b"multipart/form-data":
        boundary = options.get(b"boundary")
        if boundary is None:
            raise ApiProblem(422, "VALIDATION_ERROR", "file: the form has no boundary")
        form = _Form(boundary)
    async for piece in body_pieces(request):
        content = piece if form is None else form.feed(piece)
        if content:
            yield content
    if form is not None:
        form.end()


class _Form:
    """The part named `file` of a form; the others are passed over."""

    def __init__(self, boundary: bytes) -> None:
        self._names: list[str] = []
        self._is_whole = False
        self._takes = False  # the part that is read now
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
            raise ApiProblem(
                422, "VALIDATION_ERROR", "file: the form ends too early; send it again"
            )
        if "file" not in self._names:
            named = ", ".join(self._names[:5]) or "nothing"
            raise ApiProblem(
                422,
                "VALIDATION_ERROR",
                f"file: the form has no file, but {named}; use -F file=@jobs.ndjson",
            )

    def _callbacks(self) -> dict[str, Callable[..., None]]:
        return {
            "on_part_begin": self._begin_part,
            "on_part_data": self._data,
            "on_header_begin": self._begin_header,
            "on_header_field": lambda data, start, end: _extend(self._header, data, start, end),
            "on_header_value": lambda data, start, end: _extend(self._value, data, start, end),
            "on_header_end": self._end_header,
            "on_end": self._end,
        }

    def _begin_part(self) -> None:
        if len(self._names) == _MOST_PARTS:
            message = f"file: the form has more than {_MOST_PARTS} parts; send the file alone"
            raise ApiProblem(422, "VALIDATION_ERROR", message)
        self._names.append("")
        self._takes = False

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._takes:
            self._content.append(data[start:end])

    def _begin_header(self) -> None:
        self._header.clear()
        self._value.clear()

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            _, options = parse_options_header(bytes(self._value))
            self._names[-1] = options.get(b"name", b"").decode(errors="replace")[:_SHOWN]
            # Of several parts with this name the first counts.
            self._takes = self._names[-1] == "file" and self._names.count("file") == 1

    def _end(self) -> None:
        self._is_whole = True


def _extend(kept: bytearray, data: bytes, start: int, end: int) -> None:
    if len(kept) + end - start > _LONGEST_HEADER:
        message = f"file: the form has a header of more than {_LONGEST_HEADER} bytes"
        raise ApiProblem(422, "VALIDATION_ERROR", message)
    kept += data[start:end]


def _broken(error: MultipartParseError) -> ApiProblem:
    return ApiProblem(422, "VALIDATION_ERROR", f"file: the form is broken: {error}")
