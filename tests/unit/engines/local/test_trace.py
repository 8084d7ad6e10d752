"""Whether a process comes from a supervisor of ours, where /proc cannot be read."""

import errno
import os
from pathlib import Path

import pytest

from tgpu.engines.local.trace import trace


@pytest.mark.parametrize(
    ("number", "may_be_ours"),
    [(errno.EMFILE, True), (errno.ENFILE, True), (errno.ENOENT, False), (errno.EACCES, False)],
)
def test_what_cannot_be_looked_at_for_want_of_descriptors_may_be_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, may_be_ours: bool
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "read_bytes", fail)
    traced = trace(tmp_path, [os.getpid()], None)
    assert (traced.is_ours, traced.key) == (may_be_ours, None)
