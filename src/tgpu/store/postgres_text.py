"""Texts as PostgreSQL can hold them: it takes every character but U+0000.

U+0000 becomes three characters that Unicode keeps free for such purposes, and those three are
written the same way. The first begins every such group and stands nowhere else, so one text is in
another exactly if that is so of both as written: `strpos` goes on to work.
"""

import re
from collections.abc import Sequence
from typing import Final

from tgpu.store.rows import Value

_BEGIN, _A, _B = "\ufdd0", "\ufdd1", "\ufdd2"
_OUT: Final = {
    0: _BEGIN + _A + _A,
    ord(_BEGIN): _BEGIN + _A + _B,
    ord(_A): _BEGIN + _B + _A,
    ord(_B): _BEGIN + _B + _B,
}
_BACK: Final = {written: chr(code) for code, written in _OUT.items()}
_SPECIAL: Final = re.compile("[\0\ufdd0-\ufdd2]")
_WRITTEN: Final = re.compile(f"{_BEGIN}[{_A}{_B}][{_A}{_B}]")


def to_text(value: str) -> str:
    return value.translate(_OUT) if _SPECIAL.search(value) else value


def from_text(text: str) -> str:
    return _WRITTEN.sub(lambda match: _BACK[match[0]], text) if _BEGIN in text else text


def to_values(values: Sequence[Value]) -> list[Value]:
    # Nearly all are plain ASCII, and Python knows that without looking at the characters.
    return [
        value
        if not isinstance(value, str) or (value.isascii() and "\0" not in value)
        else to_text(value)
        for value in values
    ]


def from_values(values: Sequence[Value]) -> list[Value]:
    return [from_text(value) if isinstance(value, str) else value for value in values]
