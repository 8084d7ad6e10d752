"""The file that only takes up room."""

import os
from pathlib import Path

from tgpu.engines import ballast


def test_it_really_takes_up_room_until_it_is_given_up(tmp_path: Path) -> None:
    assert ballast.keep(str(tmp_path), 1 << 20)
    file = tmp_path / ballast.NAME
    assert file.stat().st_size == 1 << 20
    assert file.stat().st_blocks * 512 >= 1 << 20
    assert file.stat().st_mode & 0o777 == 0o600
    assert ballast.give_up(str(tmp_path))
    assert not file.exists()
    assert not ballast.give_up(str(tmp_path))


def test_it_is_made_anew_where_its_size_is_another_or_it_is_none(tmp_path: Path) -> None:
    file = tmp_path / ballast.NAME
    os.truncate(os.open(file, os.O_CREAT | os.O_WRONLY), 1 << 20)  # of that length, and empty
    (tmp_path / "ballast.new").symlink_to("/etc/passwd")
    assert ballast.keep(str(tmp_path), 1 << 20)
    assert file.stat().st_blocks * 512 >= 1 << 20
    before = file.stat().st_ino
    assert ballast.keep(str(tmp_path), 1 << 20)
    assert file.stat().st_ino == before
    assert ballast.keep(str(tmp_path), 2 << 20)
    assert file.stat().st_size == 2 << 20


def test_where_there_is_no_room_for_it_there_is_none(tmp_path: Path) -> None:
    total = ballast.room_at(str(tmp_path)).total
    free = ballast.room_at(str(tmp_path)).free
    if free < total // 10:  # a twentieth would not fit twice
        assert not ballast.keep(str(tmp_path), total)
        return
    assert ballast._size(total, total) == total // 20
