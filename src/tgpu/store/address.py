"""Names of databases as people write them: sqlite:PATH or postgresql://…"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_POSTGRES: Final = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class SqliteAddress:
    path: Path


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    url: str = field(repr=False)  # it may hold a password
    schema: str = "public"


Address = SqliteAddress | PostgresAddress


def parse_address(text: str) -> Address:
    """Raises ValueError with what to write instead; the text itself may hold a password."""
    if text.startswith(_POSTGRES):
        return PostgresAddress(text)
    kind, separator, path = text.partition(":")
    if kind == "sqlite" and separator and path.strip("/"):
        # sqlite:/a/b and sqlite:///a/b are the same file.
        return SqliteAddress(Path("/" + path.lstrip("/") if path.startswith("/") else path))
    raise ValueError("must be sqlite:PATH or postgresql://user@host:5432/database")
