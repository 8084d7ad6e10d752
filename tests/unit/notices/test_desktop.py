"""Notices on the desktop: a program that is called with arguments, never a shell."""

import pytest

from tests.unit.notices.letters import a_letter
from tgpu.notices.desktop import DesktopTarget
from tgpu.notices.notice import NotSent


@pytest.fixture
def program(tmp_path):
    """Stands for notify-send, which needs a desktop: writes down how it was called."""

    def make(script: str):
        path = tmp_path / "notify-send"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return make


async def test_the_desktop_is_told_by_arguments(tmp_path, program):
    called = tmp_path / "called"
    name = program(f'for each in "$@"; do echo "$each"; done > {called}')
    await DesktopTarget(5.0, name).send([a_letter(title="--help; $(touch x)", text="a < b")])
    assert called.read_text().splitlines() == [
        "--app-name=tgpu",
        "--urgency=critical",
        "--",
        "--help; $(touch x)",
        "a &lt; b",
    ]


async def test_several_are_shown_as_one(tmp_path, program):
    called = tmp_path / "called"
    name = program(f'echo "$4|$5" > {called}')
    await DesktopTarget(5.0, name).send([a_letter(title="one"), a_letter(title="two")])
    assert called.read_text() == "2 notices|one\ntwo\n"


async def test_no_desktop_is_tried_again(program):
    with pytest.raises(NotSent, match="no bus"):
        await DesktopTarget(5.0, program("echo no bus >&2; exit 1")).send([a_letter()])


async def test_a_program_that_hangs_is_ended(program):
    with pytest.raises(NotSent, match="longer"):
        await DesktopTarget(0.2, program("exec sleep 60")).send([a_letter()])


async def test_a_program_that_is_missing_is_named_with_the_remedy(tmp_path):
    with pytest.raises(NotSent, match="apt install libnotify-bin"):
        await DesktopTarget(5.0, str(tmp_path / "none")).send([a_letter()])
