from pathlib import Path

import pytest

from tgpu.store.address import PostgresAddress, SqliteAddress, parse_address


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("sqlite:tgpu.db", "tgpu.db"),
        ("sqlite:data/tgpu.db", "data/tgpu.db"),
        ("sqlite:/srv/tgpu.db", "/srv/tgpu.db"),
        ("sqlite:///srv/tgpu.db", "/srv/tgpu.db"),
    ],
)
def test_a_sqlite_address_is_a_path(text: str, path: str) -> None:
    assert parse_address(text) == SqliteAddress(Path(path))


@pytest.mark.parametrize("text", ["postgresql://me@host/db", "postgres:///db"])
def test_a_postgres_address_is_kept_as_it_is(text: str) -> None:
    assert parse_address(text) == PostgresAddress(text)


@pytest.mark.parametrize("text", ["", "tgpu.db", "sqlite:", "sqlite:///", "mysql://me:secret@h/db"])
def test_anything_else_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be sqlite:PATH or postgresql://") as refused:
        parse_address(text)
    assert "secret" not in str(refused.value)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(parse_address("postgresql://me:secret@host/db"))
