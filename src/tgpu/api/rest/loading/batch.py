"""Reads a JSON list element by element, so that a long list is never in memory as a whole."""

import json
import re
from collections.abc import Iterator
from typing import Final, NoReturn

from tgpu.api.rest.loading.ingest import LONGEST, Item, Utf8
from tgpu.api.rest.problem import ApiProblem
from tgpu.api.translate.wording import of_bad_json
from tgpu.text.json_words import json_words

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_AGAIN: Final = 16_384  # more characters before an element that was not whole is tried again
_KINDS: Final = {"{": "an object", '"': "text", "t": "a truth value", "f": "a truth value"}
_scan = json.JSONDecoder().raw_decode


class ListItems:
    """A Reader: elements with their numbers from 0, each as the bytes that stand there."""

    def __init__(self) -> None:
        self._text = Utf8()
        self._rest = ""
        self._before = 0  # characters that were read and let go of
        self._number = 0
        self._awaits = "["  # or "first", "value", "comma"; "" once the list is over
        self._try_at = 0

    def feed(self, data: bytes) -> Iterator[Item]:
        self._rest += self._decoded(data)
        if len(self._rest) >= self._try_at:
            yield from self._items(is_last=False)

    def end(self) -> Iterator[Item]:
        self._rest += self._decoded(b"", final=True)
        yield from self._items(is_last=True)
        if self._awaits:
            self._refuse("it ends too early")

    def _decoded(self, data: bytes, *, final: bool = False) -> str:
        try:
            return self._text.of(data, final=final)
        except ApiProblem:
            self._refuse("it is not UTF-8")

    def _items(self, *, is_last: bool) -> Iterator[Item]:
        text, at = self._rest, 0
        while (at := _end_of_space(text, at)) < len(text):
            if self._awaits == "value" or (self._awaits == "first" and text[at] != "]"):
                end = self._end_of_value(text, at, is_last=is_last)
                if end is None:
                    break
                yield self._number, text[at:end].encode(errors="surrogatepass")
                self._number += 1
                self._awaits, at = "comma", end
            else:
                self._take_mark(text[at], at)
                at += 1
        self._rest = text[at:]
        self._before += at
        self._try_at = len(self._rest) + _AGAIN if self._rest else 0

    def _take_mark(self, mark: str, at: int) -> None:
        match self._awaits, mark:
            case "[", "[":
                self._awaits = "first"
            case "[", _:
                self._refuse(f"this is {_KINDS.get(mark, 'a number or null')}")
            case (("first" | "comma"), "]"):
                self._awaits = ""
            case "comma", ",":
                self._awaits = "value"
            case _:
                self._refuse(f"{mark!r} is not expected at character {self._before + at}")

    def _end_of_value(self, text: str, at: int, *, is_last: bool) -> int | None:
        """None where the rest of it is still to come."""
        complaint = "it ends too early"
        try:
            _, end = _scan(text, at)
            if end < len(text) or is_last:
                return end
        except json.JSONDecodeError as error:
            complaint = f"{json_words(error.msg)} at character {self._before + error.pos}"
        except (ValueError, RecursionError) as error:
            self._refuse(of_bad_json(str(error)))
        if is_last:
            self._refuse(complaint)
        if len(text) - at > LONGEST:
            self._refuse(f"element {self._number} is longer than {LONGEST} bytes, or {complaint}")
        return None

    def _refuse(self, complaint: str) -> NoReturn:
        message = f"body: must be a JSON list of jobs: {complaint}"
        raise ApiProblem(422, "VALIDATION_ERROR", message)


def _end_of_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
