"""Brings a SQLite database to this version's schema: numbered scripts, forward only.

A script, once released, is never edited. Each runs in its own transaction together with the note
of its number in `meta`, so a crash leaves the database at one version or the next.
"""

import re
import sqlite3
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from tgpu.store.api import StoreUnavailable

_SCRIPT = re.compile(r"(\d{4})_\w+\.sql")


class Migration(NamedTuple):
    version: int
    script: str


def migrations(folder_name: str = "migrations") -> list[Migration]:
    """All scripts of this version, by number."""
    folder = resources.files("tgpu.store") / folder_name
    found = []
    for file in folder.iterdir():
        if match := _SCRIPT.fullmatch(file.name):
            found.append(Migration(int(match[1]), file.read_text(encoding="utf-8")))
    return sorted(found)


def migrate(connection: sqlite3.Connection, path: Path, known: list[Migration]) -> None:
    version = schema_version(connection, path)
    newest = known[-1].version
    if version > newest:
        raise StoreUnavailable(
            f"{path} has schema version {version}, and this version of tgpu knows "
            f"versions up to {newest}: install the newer tgpu that wrote it, or choose "
            "another data directory"
        )
    for migration in known:
        if migration.version > version:
            _apply(connection, migration)


def schema_version(connection: sqlite3.Connection, path: Path) -> int:
    """0 for an empty database."""
    names = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if not names:
        return 0
    if "meta" in names:
        rows = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'")
        if (row := rows.fetchone()) and str(row[0]).isdigit():
            return int(row[0])
    raise StoreUnavailable(
        f"{path} is a database of another program: choose another data directory"
    )


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    connection.executescript(
        f"BEGIN IMMEDIATE;\n{migration.script}\n"
        "INSERT INTO meta (key, value)"
        f" VALUES ('schema_version', '{migration.version}')"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value;\n"
        "COMMIT;"
    )
