"""The journal of a database as lines, without a service."""

from collections.abc import Iterator
from typing import cast

import msgspec

from tgpu.database import Address, each_row, status
from tgpu.journal.lines import Values, end_line, header_line, row_line
from tgpu.service.upkeep.settings_record import KIND
from tgpu.store.api import decision_id


def database_lines(address: Address, now: int, *, commands: bool = False) -> Iterator[bytes]:
    """Also while a service writes to it. Raises StoreUnavailable, or Conflict for an old one."""
    yield header_line(
        exported_at=now,
        last_seq=status(address).counts.get("journal", 0),
        settings=_settings(address),
        nodes=[str(data) for _, data in each_row(address, "nodes")],
        tenants=[str(data) for _, data in each_row(address, "tenants")],
    )
    last = count = 0
    for seq, _, kind, _, payload, number, by in each_row(address, "journal"):
        assert isinstance(seq, int)
        decision = decision_id(cast(int | None, number), cast(str | None, by))
        last, count = seq, count + 1
        yield row_line(seq, str(kind), str(payload).encode(), decision, commands=commands)
    yield end_line(count, last)


def _settings(address: Address) -> Values | None:
    for kind, _, body in each_row(address, "documents"):
        if kind == KIND and isinstance(body, bytes):
            found: dict[str, Values] = msgspec.json.decode(body)
            return found["values"]
    return None
