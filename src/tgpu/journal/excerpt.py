"""Part of a journal as a journal of its own, with a snapshot of the state at its start."""

from collections.abc import Iterator

from tgpu.journal.lines import Journal, end_line, header_line, row_line
from tgpu.journal.rebuild import TELL_EVERY, Rebuilt, Tell, snapshot_lines
from tgpu.store import codec


def excerpt_lines(
    journal: Journal, since: int | None, until: int | None, tell: Tell | None = None
) -> Iterator[tuple[bytes, int]]:
    """Its lines, each with the number of events in it. Events from `since` on, before `until`.

    Clocks are set back now and then: what was recorded behind the first event of the part belongs
    to it, whatever instant it names.
    """
    rebuilt = Rebuilt(journal)
    rows = journal.rows()
    is_begun = since is None
    if is_begun:
        yield _header(journal, journal.header.after, until), 0
    count, seq = 0, journal.header.after
    for number, row in enumerate(rows, 1):
        if tell is not None and not number % TELL_EVERY:
            tell(TELL_EVERY)
        if not row.seq:
            if is_begun:
                yield b'{"%s":%s}\n' % (row.kind.encode(), row.payload), 0
            else:
                rebuilt.take(row)
            continue
        at = 0 if since is None and until is None else journal.at(row)
        if until is not None and at >= until and is_begun:
            break
        if not is_begun and since is not None and at >= since:
            is_begun = True
            yield from _beginning(journal, rebuilt, until)
        if not is_begun:
            rebuilt.take(row)
            seq = row.seq
            continue
        count, seq = count + 1, row.seq
        yield row_line(row.seq, row.kind, row.payload, row.decision, commands=True), 1
    if not is_begun:
        yield from _beginning(journal, rebuilt, until)
    yield end_line(count, seq), 0


def _beginning(
    journal: Journal, rebuilt: Rebuilt, until: int | None
) -> Iterator[tuple[bytes, int]]:
    yield _header(journal, rebuilt.seq, until), 0
    if rebuilt.seq:
        for line in snapshot_lines(rebuilt):
            yield line, 0


def _header(journal: Journal, after: int, until: int | None) -> bytes:
    found = journal.header
    at = found.exported_at
    return header_line(
        exported_at=at if until is None else min(at, until),
        last_seq=found.last_seq,
        after=after,
        settings=found.settings,
        nodes=[codec.node_text(node) for node in found.nodes],
        tenants=[codec.tenant_text(tenant) for tenant in found.tenants],
    )
