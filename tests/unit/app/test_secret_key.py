"""The file of keys: made once, for its owner alone, and never guessed."""

import os
from pathlib import Path

import pytest

from tests.contract.store.builders import a_job, submitted
from tgpu.app.refusal import CannotServe
from tgpu.app.rotate_key import rotate_key
from tgpu.app.secret_key import load_sealer, new_key, read_keys, write_keys
from tgpu.core.model.job import Detail
from tgpu.service.secrets.sealing import Sealer
from tgpu.settings import Settings
from tgpu.store.address import SqliteAddress
from tgpu.store.api import Record
from tgpu.store.upkeep import store_at


def settings(directory: Path, **security: object) -> Settings:
    return Settings.model_validate({"data_dir": directory, "security": security})


def test_it_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    first = load_sealer(settings(tmp_path), tmp_path)
    again = load_sealer(settings(tmp_path), tmp_path)
    assert first is not None
    assert again is not None
    assert again.unseal(first.seal("x")) == "x"
    assert (tmp_path / "secret.key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret.key"]


def test_it_may_stand_elsewhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "credentials" / "tgpu"
    elsewhere.parent.mkdir()
    load_sealer(settings(tmp_path, secret_key_file=str(elsewhere)), tmp_path)
    assert elsewhere.exists()
    assert not (tmp_path / "secret.key").exists()


def test_where_nothing_is_kept_there_is_no_key(tmp_path: Path) -> None:
    found = Settings.model_validate({"database": {"kind": "memory"}})
    assert load_sealer(found, tmp_path) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "mode", "says"),
    [
        (b"", 0o600, "has no keys"),
        (b"c2hvcnQ=\n", 0o600, "has no keys"),
        (b"not base64 at all!\n", 0o600, "has no keys"),
        (None, 0o640, "chmod 600"),
    ],
)
def test_what_is_wrong_with_it_is_said(
    tmp_path: Path, content: bytes | None, mode: int, says: str
) -> None:
    path = tmp_path / "secret.key"
    write_keys(path, [new_key()])
    if content is not None:
        path.write_bytes(content)
    path.chmod(mode)
    with pytest.raises(CannotServe, match=says):
        read_keys(path)


def test_neither_a_link_nor_a_pipe_is_read(tmp_path: Path) -> None:
    write_keys(tmp_path / "real", [new_key()])
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "pipe"):
        with pytest.raises(CannotServe):
            read_keys(tmp_path / name)


async def test_a_new_key_seals_what_an_earlier_version_left_readable(tmp_path: Path) -> None:
    store = store_at(SqliteAddress(tmp_path / "tgpu.db"))
    await store.open()
    old = Sealer([b"o" * 32])
    write_keys(tmp_path / "secret.key", [b"o" * 32])
    detail = Detail(argv=("x", old.seal("s3cr3t")), env_id="e")
    job = a_job("a")
    record = Record([submitted(job)], {job.job_id: detail}, {"e": {"A_TOKEN": "readable"}})
    await store.commit(record)
    await store.close()

    done = rotate_key(settings(tmp_path), tmp_path)
    assert (done.rows, done.lost) == (3, 0)
    (key,) = read_keys(tmp_path / "secret.key")
    assert b"readable" not in (tmp_path / "tgpu.db").read_bytes()
    store = store_at(SqliteAddress(tmp_path / "tgpu.db"))
    await store.open()
    stored = await store.job(job.job_id)
    assert stored is not None
    assert Sealer([key]).unsealed(stored.detail).argv == ("x", "s3cr3t")
    assert Sealer([key]).opened(await store.environment("e")) == {"A_TOKEN": "readable"}
    await store.close()
