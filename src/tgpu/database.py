"""The database of the settings: its store for a service, and its maintenance commands."""

from tgpu.settings import Settings
from tgpu.store.address import (
    Address,
    PostgresAddress,
    SqliteAddress,
    parse_address,
)
from tgpu.store.api import Store
from tgpu.store.memory import MemoryStore
from tgpu.store.rows import Value
from tgpu.store.sqlite_backup import backup
from tgpu.store.tables import StoreTable
from tgpu.store.upkeep import (
    StoreStatus,
    Upgraded,
    copy,
    each_row,
    rewrite,
    status,
    store_at,
    upgrade,
)

__all__ = [
    "Address",
    "SqliteAddress",
    "StoreStatus",
    "StoreTable",
    "Upgraded",
    "Value",
    "address_of",
    "backup",
    "copy",
    "each_row",
    "make_store",
    "parse_address",
    "rewrite",
    "status",
    "upgrade",
]


def make_store(settings: Settings) -> Store:
    """A store that is not open yet. Raises StoreUnavailable where its driver is missing."""
    address = address_of(settings)
    seconds = settings.database.timeout_seconds
    return MemoryStore() if address is None else store_at(address, seconds)


def address_of(settings: Settings) -> Address | None:
    """None for the memory, which nobody else can look into."""
    match settings.database.kind:
        case "memory":
            return None
        case "sqlite":
            return SqliteAddress(settings.database_path)
        case "postgresql":
            return PostgresAddress(settings.database.postgres_url())
