"""The engine's clock: nobody can set it, and all who look after one directory have the same."""

from pathlib import Path

import pytest

from tgpu.engines.local import steady

HOUR = 3_600_000


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady, "_offset_ms", None)
    monkeypatch.setattr(steady, "wall_ms", lambda: 1_000_000_000)
    monkeypatch.setattr(steady, "boottime_ms", lambda: 500)


def set_clocks(monkeypatch: pytest.MonkeyPatch, wall: int, boottime: int) -> None:
    monkeypatch.setattr(steady, "wall_ms", lambda: wall)
    monkeypatch.setattr(steady, "boottime_ms", lambda: boottime)


def test_before_it_begins_it_is_the_wall_clock() -> None:
    assert steady.now_ms() == 1_000_000_000


def test_it_goes_on_steadily_where_the_wall_clock_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady.begin(str(tmp_path), "boot")
    assert steady.now_ms() == 1_000_000_000
    set_clocks(monkeypatch, 1_000_000_000 + 5 * HOUR, 1_500)
    assert steady.now_ms() == 1_000_001_000


def test_another_process_has_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steady.begin(str(tmp_path), "boot")
    monkeypatch.setattr(steady, "_offset_ms", None)
    set_clocks(monkeypatch, 1_000_000_000 - 5 * HOUR, 2_500)
    steady.begin(str(tmp_path), "boot")
    assert steady.now_ms() == 1_000_002_000


def test_after_a_reboot_it_is_the_wall_clock_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady.begin(str(tmp_path), "boot")
    monkeypatch.setattr(steady, "_offset_ms", None)
    set_clocks(monkeypatch, 2_000_000_000, 10)
    steady.begin(str(tmp_path), "another")
    assert steady.now_ms() == 2_000_000_000
    assert steady.offset_of(str(tmp_path), "boot") is None


@pytest.mark.parametrize("content", ["", "boot", "boot x\n", "\0\xff 3"])
def test_a_file_that_says_nothing_is_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "clock").write_text(content)
    steady.begin(str(tmp_path), "boot")
    assert steady.now_ms() == 1_000_000_000
    assert steady.offset_of(str(tmp_path), "boot") == 1_000_000_000 - 500


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("boot 77\n")
    (tmp_path / "clock").symlink_to(elsewhere)
    steady.begin(str(tmp_path), "boot")
    assert steady.now_ms() == 1_000_000_000
    assert elsewhere.read_text() == "boot 77\n"
