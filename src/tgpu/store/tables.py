"""The tables that every database has, with their columns, as both kinds of SQL name them."""

from dataclasses import dataclass
from typing import Final

from tgpu.store.rows import AUDIT_COLUMNS, JOB_COLUMNS, JOURNAL_COLUMNS, USAGE_COLUMNS

# All others hold text.
NUMBERS: Final = frozenset(
    {
        "seq",
        "at",
        "number",
        "submitted_at",
        "ended_at",
        "submit_seq",
        "decision",
        *USAGE_COLUMNS[3:],
        "day",
    }
)
BYTES: Final = frozenset({"body"})


@dataclass(frozen=True, slots=True)
class StoreTable:
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def column_list(self) -> str:
        """Quoted, as `user` is a word of SQL."""
        return quoted(self.columns)

    @property
    def key_list(self) -> str:
        return quoted(self.key)


def quoted(columns: tuple[str, ...]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


# In an order in which they can be filled. `meta` is not among them: it is about the database.
TABLES: Final = (
    StoreTable("tenants", ("tenant_id", "data"), ("tenant_id",)),
    StoreTable("queues", ("tenant_id", "name", "data"), ("tenant_id", "name")),
    StoreTable("nodes", ("node_id", "data"), ("node_id",)),
    StoreTable("environments", ("env_id", "data"), ("env_id",)),
    StoreTable("journal", JOURNAL_COLUMNS, ("seq",)),
    StoreTable("jobs", (*JOB_COLUMNS, "ended_at"), ("number",)),
    StoreTable("usage", USAGE_COLUMNS, USAGE_COLUMNS[:3]),
    StoreTable("documents", ("kind", "name", "body"), ("kind", "name")),
    StoreTable("audit", AUDIT_COLUMNS, ("seq",)),
)
