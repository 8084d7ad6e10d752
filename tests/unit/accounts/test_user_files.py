"""Files that others name are read as who names them."""

import os
from pathlib import Path

import pytest

from tgpu.accounts.system import account_of
from tgpu.accounts.user_files import read_as

_NOBODY = 65534


def test_the_beginning_of_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("abcdef")
    assert read_as(None, str(tmp_path / "x"), 100) == b"abcdef"
    assert read_as(None, str(tmp_path / "x"), 3) == b"abc"


def test_what_is_no_file_is_none_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("gone", "pipe", "."):
        assert read_as(None, str(tmp_path / name), 100) is None
    assert read_as(None, "/dev/zero", 100) is None


def test_what_another_user_may_not_read_is_not_read_for_them() -> None:
    account = account_of(_NOBODY)
    assert account is not None
    if os.geteuid() != 0:
        pytest.fail("needs root, as tests of other users do")
    assert read_as(account, "/etc/shadow", 100) == b""
    assert read_as(account, "/etc/passwd", 5) == b"root:"


def test_odd_paths_are_no_files() -> None:
    assert read_as(None, "a\0b", 100) == b""
    assert read_as(None, "-c", 100) is None
