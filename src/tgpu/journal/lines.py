"""The journal as lines of JSON: a header, one line per event, and a closing line.

A journal that begins in the middle has a snapshot behind its header: the state before its first
event, one line for what is few and one for each job. Environment variables are never in it, and
commands only where asked for.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

import msgspec

from tgpu import __version__
from tgpu.core.model.events import Event, Scalar
from tgpu.core.model.node import Node
from tgpu.core.model.tenant import Tenant
from tgpu.simulate.problems import BadInput, InputProblem
from tgpu.store import event_codec
from tgpu.store.api import Decider, DecisionId, decision_id
from tgpu.text.json_words import decoding_words, json_words
from tgpu.text.masking import (
    MASK,
    is_secret_option,
    mask_argv,
    mask_text,
    mask_values,
    secret_values,
)

KIND: Final = "tgpu journal"
_KINDS: Final = (KIND, "gpu-scheduler journal")  # the second is how it was called before
FORMAT: Final = 1  # grows when a reader of before would misread a file
SNAPSHOT: Final = "snapshot"  # kinds of lines that are no events
JOB: Final = "job"

# What a job's owner said of it that no decision looks at. The first never leave the service.
_SECRET: Final = ("env", "env_id", "secrets")
_COMMANDS: Final = ("argv", "cwd", "params")
# Ten times the largest bulk submission. What is longer is no journal.
_LONGEST_LINE: Final = 256 * 1024 * 1024
_GZIP: Final = b"\x1f\x8b"

_ENCODER: Final = msgspec.json.Encoder()
Values = Mapping[str, Scalar | tuple[Scalar, ...]]


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a journal begins with. Nodes, tenants and settings are those of its export."""

    kind: str
    format: int
    version: str = ""  # of the program that wrote it
    exported_at: int = 0
    after: int = 0  # its first event is the one behind this; beyond 0 there is a snapshot
    last_seq: int = 0
    settings: dict[str, Scalar | tuple[Scalar, ...]] | None = None
    nodes: tuple[Node, ...] = ()
    tenants: tuple[Tenant, ...] = ()


class JournalLine(NamedTuple):
    """One line behind the header: an event, or a part of the snapshot, still as text."""

    line: int
    seq: int  # 0: of the snapshot
    kind: str
    payload: bytes
    decision: DecisionId | None = None  # None: of the snapshot, or written without one


class _Line(msgspec.Struct):
    seq: int = 0
    kind: str = ""
    decision: int | None = None
    decided_by: Decider | None = None
    event: msgspec.Raw = msgspec.Raw(b"")
    snapshot: msgspec.Raw = msgspec.Raw(b"")
    job: msgspec.Raw = msgspec.Raw(b"")
    end: bool = False


class _Instant(msgspec.Struct):
    at: int


_LINE: Final = msgspec.json.Decoder(_Line)
_INSTANT: Final = msgspec.json.Decoder(_Instant)
_HEADER: Final = msgspec.json.Decoder(Header)
_ANY: Final = msgspec.json.Decoder()


# -- writing -------------------------------------------------------------------------------------


def header_line(
    *,
    exported_at: int,
    last_seq: int,
    after: int = 0,
    settings: Values | None = None,
    nodes: Sequence[str] = (),
    tenants: Sequence[str] = (),
) -> bytes:
    """`nodes` and `tenants` are texts of the store's codec."""
    facts = {
        "kind": KIND,
        "format": FORMAT,
        "version": __version__,
        "exported_at": exported_at,
        "after": after,
        "last_seq": last_seq,
        "settings": settings,
    }
    lists = f',"nodes":[{",".join(nodes)}],"tenants":[{",".join(tenants)}]}}\n'
    return _ENCODER.encode(facts)[:-1] + lists.encode()


def row_line(
    seq: int,
    kind: str,
    payload: bytes,
    decision: DecisionId | None = None,
    *,
    commands: bool = False,
) -> bytes:
    return b'{"seq":%d,"kind":"%s",%s"event":%s}\n' % (
        seq,
        kind.encode(),
        b""
        if decision is None
        else b'"decision":%d,"decided_by":"%s",' % (decision.number, decision.by.encode()),
        fit_to_leave(kind, payload, commands=commands),
    )


def end_line(rows: int, last_seq: int) -> bytes:
    return b'{"end":true,"rows":%d,"last_seq":%d}\n' % (rows, last_seq)


def fit_to_leave(kind: str, payload: bytes, *, commands: bool = False) -> bytes:
    """A recorded event without what must stay inside."""
    if kind != "jobs_submitted" or b'"detail"' not in payload:
        return payload
    drop = _SECRET if commands else (*_SECRET, *_COMMANDS)
    found: Any = _ANY.decode(payload)
    for job in found["jobs"]:
        detail = job.get("detail")
        if detail is not None:
            secrets = secret_values(dict(detail.get("env", ())))
            for name in drop:
                detail.pop(name, None)
            _hide_secrets(detail, secrets)
    return _ENCODER.encode(found)


def _hide_secrets(detail: dict[str, Any], secrets: Sequence[str]) -> None:
    """A file goes from hand to hand. `secrets`: what is to be hidden wherever it stands."""
    if "name" in detail:
        detail["name"] = mask_values(mask_text(detail["name"]), secrets)
    if "argv" in detail:
        detail["argv"] = [mask_values(word, secrets) for word in mask_argv(detail["argv"])]
    if "params" in detail:
        detail["params"] = [
            (name, MASK if is_secret_option(name) else mask_values(mask_text(value), secrets))
            for name, value in detail["params"]
        ]


# -- reading -------------------------------------------------------------------------------------


class Journal:
    """A journal from anywhere. The header is read at once, rows as they are asked for."""

    def __init__(self, name: str, lines: Iterable[bytes]) -> None:
        self.name = name
        self.is_whole = False  # known after the last row
        self._lines = enumerate(lines, 1)
        self.header = self._header()

    def rows(self) -> Iterator[JournalLine]:
        """The snapshot if there is one, then the events, without gap. Raises BadInput."""
        seq = self.header.after
        is_begun = not seq
        for number, text in self._lines:
            if not text.strip():
                continue
            if self.is_whole:
                raise self.bad(number, "", "comes after the end", "no journal")
            line = self._line(number, text)
            if line.end:
                self.is_whole = True
            elif line.snapshot:
                is_begun = True
                yield JournalLine(number, 0, SNAPSHOT, bytes(line.snapshot))
            elif line.job:
                yield JournalLine(number, 0, JOB, bytes(line.job))
            else:
                seq += 1
                if not is_begun:
                    what = f"is {seq - 1}, and no snapshot says how things stood then"
                    raise self.bad(1, "after", what, "no snapshot")
                self._check(number, line, seq)
                decision = decision_id(line.decision, line.decided_by)
                yield JournalLine(number, seq, line.kind, bytes(line.event), decision)

    def event(self, row: JournalLine) -> Event:
        try:
            return event_codec.decode_event(row.kind, row.payload)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            text = f"is not a {row.kind} of a journal: {_words(error)}"
            raise self.bad(row.line, "event", text, "no event") from None

    def at(self, row: JournalLine) -> int:
        """When it happened, without reading the rest of it."""
        try:
            return _INSTANT.decode(row.payload).at
        except (msgspec.DecodeError, RecursionError) as error:
            raise self.bad(row.line, "event.at", _words(error), "no event") from None

    def bad(self, line: int, column: str, text: str, kind: str) -> BadInput:
        return BadInput(self.name, [InputProblem(line, column, text, kind)])

    def _header(self) -> Header:
        _, text = next(self._lines, (1, b""))
        if not text.strip():
            raise self.bad(1, "", "is empty: a journal begins with a header", "no journal")
        try:
            found = _HEADER.decode(text)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            what = f"is not a header of a journal, as `tgpu export` writes it: {_words(error)}"
            raise self.bad(1, "", what, "no journal") from None
        if found.kind not in _KINDS:
            what = f"is {found.kind[:60]!r}; {KIND!r} is right (`tgpu export` writes it)"
            raise self.bad(1, "kind", what, "no journal")
        if found.format > FORMAT:
            what = f"{found.format} is newer than {FORMAT}, which this version reads; upgrade tgpu"
            raise self.bad(1, "format", what, "newer format")
        if found.after < 0:
            raise self.bad(1, "after", f"{found.after} is negative", "no journal")
        return found

    def _line(self, number: int, text: bytes) -> _Line:
        try:
            return _LINE.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self.bad(
                number, "", f"is not a line of a journal: {_words(error)}", "no JSON"
            ) from None

    def _check(self, number: int, line: _Line, seq: int) -> None:
        if line.seq != seq:
            what = f"{line.seq} is not {seq}: events are missing, twice there or in another order"
            raise self.bad(number, "seq", what, "gap")
        if line.kind not in event_codec.KINDS:
            known = ", ".join(event_codec.KINDS)
            what = f"{line.kind[:60]!r} is not a kind of event that this version knows: {known}"
            raise self.bad(number, "kind", what, "unknown kind")


def _words(error: Exception) -> str:
    """What a decoder complains of, in our words."""
    if isinstance(error, msgspec.ValidationError):
        return decoding_words(str(error))
    return json_words(str(error))


@contextmanager
def open_journal(path: Path) -> Iterator[Journal]:
    """A file, packed by gzip or not."""
    with path.open("rb") as raw:
        is_packed = raw.read(2) == _GZIP
        raw.seek(0)
        file = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if is_packed else raw
        yield Journal(path.name, _file_lines(path.name, file))


def is_journal(path: Path) -> bool:
    """Whether it begins as one; whatever else is wrong with it is found when it is read."""
    with path.open("rb") as raw:
        is_packed = raw.read(2) == _GZIP
        raw.seek(0)
        file = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if is_packed else raw
        try:
            head = file.read(64).lstrip()
        except (OSError, EOFError, zlib.error):
            return False
        return any(head.startswith(f'{{"kind":"{kind}"'.encode()) for kind in _KINDS)


def split_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines of what comes in pieces."""
    rest: list[bytes] = []
    for piece in pieces:
        first, *others = piece.split(b"\n")
        rest.append(first)
        if others:
            yield b"".join(rest)
            yield from others[:-1]
            rest = [others[-1]]
    if last := b"".join(rest):
        yield last


def _file_lines(name: str, file: IO[bytes]) -> Iterator[bytes]:
    number = 0
    while True:
        number += 1
        try:
            line = file.readline(_LONGEST_LINE)
        except (OSError, EOFError, zlib.error):
            text = "cannot be unpacked: the file is damaged, or not whole"
            raise BadInput(name, [InputProblem(number, "", text, "no gzip")]) from None
        if not line:
            return
        if len(line) >= _LONGEST_LINE:
            text = f"is longer than {_LONGEST_LINE >> 20} MiB: this is not a journal"
            raise BadInput(name, [InputProblem(number, "", text, "no journal")])
        yield line
