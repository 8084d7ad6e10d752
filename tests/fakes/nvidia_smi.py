"""A fake `nvidia-smi` program whose answers a test can change while it is in use."""

import sys
from pathlib import Path

_PROGRAM = """#!{python} -IS
import os, pathlib, sys, time
folder = pathlib.Path(__file__).parent
mode = (folder / "mode").read_text()
if mode == "hang":
    (folder / "pid").write_text(str(os.getpid()))
    time.sleep(60)
if mode.startswith("fail:"):
    print(mode[5:])
    sys.exit(9)
asked = " ".join(sys.argv)
kind = "apps" if "--query-compute-apps=" in asked else "health" if "remapped" in asked else "gpus"
with (folder / "calls").open("a") as calls:
    print(*sys.argv[1:], file=calls)
sys.stdout.write((folder / kind).read_text())
"""


class FakeNvidiaSmi:
    """Put `folder` on PATH, or give `command` to the provider."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = (str(folder / "nvidia-smi"),)
        program = folder / "nvidia-smi"
        program.write_text(_PROGRAM.format(python=sys.executable))
        program.chmod(0o755)
        self.answer()

    def answer(self, gpus: str = "", apps: str = "", health: str = "") -> None:
        (self.folder / "gpus").write_text(gpus)
        (self.folder / "health").write_text(health)
        (self.folder / "apps").write_text(apps)
        self._mode("ok")

    def fail(self, message: str) -> None:
        self._mode(f"fail:{message}")

    def hang(self) -> None:
        self._mode("hang")

    def hanging_pid(self) -> int:
        """The process that was last started to hang."""
        return int((self.folder / "pid").read_text())

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def _mode(self, mode: str) -> None:
        (self.folder / "mode").write_text(mode)
