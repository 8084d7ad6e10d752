"""API keys and the audit log as tables."""

from typing import Final

from tgpu.cli.render.grid import Cell, Column, Grid, clean
from tgpu.text.instants import local_text
from tgpu.wire.keys_v1 import AuditEntry, AuditList, KeyList, KeyModel

_KEYS: Final = (
    Column("ID", least=10),
    Column("NAME", least=8),
    Column("ROLE"),
    Column("TENANTS", least=8),
    Column("STATE"),
    Column("CREATED", leave_out=3),
    Column("EXPIRES", leave_out=2),
    Column("LAST USED", leave_out=1),
)
_AUDIT: Final = (
    Column("WHEN", least=19),
    Column("WHO", least=8),
    Column("WHAT", least=16),
    Column("TARGET", least=6),
    Column("FROM", leave_out=2),
    Column("OUTCOME", least=6),
    Column("DETAIL", least=8, leave_out=1),
)
_STYLES: Final = {"active": "green", "revoked": "red", "expired": "red"}


def key_grid(found: KeyList) -> Grid:
    return Grid(_KEYS, tuple(_key(key) for key in found.keys))


def audit_grid(found: AuditList) -> Grid:
    return Grid(_AUDIT, tuple(_entry(entry) for entry in found.entries))


def _key(key: KeyModel) -> tuple[Cell, ...]:
    return (
        Cell(key.id),
        Cell(clean(key.name)),
        Cell(key.role),
        Cell("all" if key.tenants is None else clean(", ".join(key.tenants))),
        Cell(key.state, _STYLES.get(key.state, "")),
        Cell(_moment(key.created_at)),
        Cell(_moment(key.expires_at)),
        Cell(_moment(key.last_used_at)),
    )


def _entry(entry: AuditEntry) -> tuple[Cell, ...]:
    return (
        Cell(_moment(entry.at)),
        Cell(clean(entry.actor)),
        Cell(clean(entry.action)),
        Cell(clean(entry.target)),
        Cell(clean(entry.origin)),
        Cell(entry.outcome, "" if entry.outcome == "ok" else "red"),
        Cell(clean(entry.detail)),
    )


def _moment(iso: str | None) -> str:
    """To the second, which is what a person reads."""
    return local_text(iso or "")
