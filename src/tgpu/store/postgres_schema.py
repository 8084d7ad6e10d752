"""Brings a PostgreSQL database to this version's schema: numbered scripts, forward only.

A script, once released, is never edited. Each runs in one transaction together with the note of
its number in `meta`, so a crash leaves the database at one version or the next.
"""

from tgpu.store.api import StoreUnavailable
from tgpu.store.postgres_connect import Connection, Server
from tgpu.store.schema import Migration, migrations

SCRIPTS = "migrations_postgres"


def migrate(connection: Connection, server: Server, known: list[Migration] | None = None) -> None:
    known = migrations(SCRIPTS) if known is None else known
    _make_schema(connection, server.schema)
    version = schema_version(connection, server)
    newest = known[-1].version
    if version > newest:
        raise StoreUnavailable(
            f"{server.name} has schema version {version}, and this version of tgpu knows "
            f"versions up to {newest}: install the newer tgpu that wrote it, or choose "
            "another database"
        )
    for migration in known:
        if migration.version > version:
            with connection.transaction():
                connection.execute(migration.script.encode())
                connection.execute(
                    "INSERT INTO meta (key, value) VALUES ('schema_version', %s)"
                    " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                    (str(migration.version),),
                )


def schema_version(connection: Connection, server: Server) -> int:
    """0 for an empty schema, or none."""
    names = {
        str(name)
        for (name,) in connection.execute(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p')"
            " AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)",
            (server.schema,),
        )
    }
    if "meta" in names and "journal" in names:
        row = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
        if row is not None and str(row[0]).isdigit():
            return int(str(row[0]))
    # Other tables beside ours are fine, as long as none has the name of one of ours.
    if taken := sorted(names & {"meta", "journal", "jobs", "tenants", "nodes", "queues", "audit"}):
        raise StoreUnavailable(
            f"{server.name} has a table {taken[0]} of another program: choose another database or"
            " schema"
        )
    return 0


def _make_schema(connection: Connection, schema: str) -> None:
    # Asked for only where missing: making one needs a right that using it does not.
    found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
    if found.fetchone() is None:
        quoted = schema.replace('"', '""')
        connection.execute(f'CREATE SCHEMA "{quoted}"'.encode())
