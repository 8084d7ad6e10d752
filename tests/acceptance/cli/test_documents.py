"""What README and tutorial show is what the product prints."""

import sys
from pathlib import Path

import pytest

from tests.acceptance.cli.conftest import Box
from tests.acceptance.cli.document_session import Step, blocks, follow, prompted
from tests.meta.repository import ROOT


def a_home(box: Box) -> Path:
    """A home whose data directory is where the documents have it, with `tgpu` on the path."""
    home = box.root / "home"
    (home / ".local" / "bin").mkdir(parents=True)
    command = home / ".local" / "bin" / "tgpu"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tgpu "$@"\n')
    command.chmod(0o755)
    box.environ["PATH"] = f"{command.parent}:{Path(sys.executable).parent}:{box.environ['PATH']}"
    box.environ["HOME"] = str(home)
    del box.environ["XDG_DATA_HOME"]
    box.data_dir = home / ".local" / "share" / "tgpu"
    return home


def test_the_session_in_the_readme_is_what_is_printed(box: Box) -> None:
    home = a_home(box)
    for script in ("train.py", "report.py"):
        (home / script).write_text("import time\ntime.sleep(600)\n")
    del box.environ["GPU_SCHEDULER_GPUS"]  # none here has a driver: what it says of that is shown
    _, session = next(iter(blocks((ROOT / "README.md").read_text())))
    follow(box, prompted(session), home)


@pytest.mark.timeout(300)  # it waits for a job of 30 s, as its reader does
def test_the_tutorial_goes_as_it_says(box: Box) -> None:
    a_home(box)
    steps = _tutorial_steps((ROOT / "docs" / "tutorial.md").read_text())
    assert len(steps) > 8
    follow(box, steps, ROOT)


def _tutorial_steps(text: str) -> list[Step]:
    """Of its commands all but those that install; of its outputs each with what came before it."""
    found = blocks(text)
    steps = []
    pairs = zip(found, [*found[1:], ("end", "")], strict=True)
    for (language, content), (following, output) in pairs:
        if language == "bash" and "pip install" not in content:
            joined = content.replace("\\\n", " ")
            commands = tuple(line for line in joined.splitlines() if line.strip())
            steps.append(Step(commands, output if following == "" else ""))
    return steps
