"""When the disk counts as full, and what is refused then."""

from pathlib import Path

import pytest

from tgpu.core.errors import Unavailable
from tgpu.engines import ballast
from tgpu.service.upkeep.disk import Disk, NoDisk


def test_a_ballast_given_up_refuses_what_is_new_until_it_is_back(tmp_path: Path) -> None:
    disk = Disk(str(tmp_path), 1 << 20)
    disk.look()
    disk.refuse_when_low()
    assert disk.problems() == []
    assert disk.make_room()
    assert not (tmp_path / ballast.NAME).exists()
    with pytest.raises(Unavailable, match=f"free some space for {tmp_path}") as raised:
        disk.refuse_when_low()
    assert raised.value.details[0]["path"] == str(tmp_path)
    assert "the disk is full" in disk.problems()[0]
    assert not disk.make_room()  # there is nothing left to give up
    disk.look()
    disk.refuse_when_low()
    assert disk.problems() == []


def test_one_that_another_process_gave_up_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(str(tmp_path), 1 << 20)
    disk.look()
    ballast.give_up(str(tmp_path))  # the supervisor
    monkeypatch.setattr(ballast, "room_at", lambda _: ballast.Room(100, 1 << 30, None))
    disk.look()
    assert disk.is_low
    assert "(100 B of 1.0 GiB free)" in disk.problems()[0]


def test_a_directory_that_cannot_be_looked_at_is_a_problem(tmp_path: Path) -> None:
    disk = Disk(str(tmp_path / "gone"), 1 << 20)
    disk.look()
    assert disk.problems() == [
        f"disk: {tmp_path / 'gone'} cannot be checked: No such file or directory"
    ]


def test_without_a_ballast_nothing_is_refused(tmp_path: Path) -> None:
    for disk in (Disk(str(tmp_path), 0), NoDisk()):
        disk.look()
        assert not disk.make_room()
        disk.refuse_when_low()
        assert not (tmp_path / ballast.NAME).exists()
