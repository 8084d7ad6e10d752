"""Installs pinned requirements with pip and shows how far it is: `scripts/install.py FILE…`.

Run with the Python of the environment to install into. Standard library only: nothing is there yet.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)
_FOUND = re.compile(r"(?:Collecting|Requirement already satisfied:) ([A-Za-z0-9._-]+)")
_LAST_LINES = 30


def main(files: list[str]) -> int:
    names = {name.lower() for file in files for name in _PIN.findall(Path(file).read_text())}
    begin = time.monotonic()
    print(f"installing {len(names)} packages into {sys.prefix} (once)", flush=True)
    said, seen = [], set()
    with subprocess.Popen(_command(files), stdout=-1, stderr=subprocess.STDOUT, text=True) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            said.append(line)
            if (found := _FOUND.match(line)) and found[1].lower() not in seen:
                seen.add(found[1].lower())
                _show(f"  {len(seen)} of {len(names)}: {found[1]}")
            elif line.startswith("Installing collected"):
                _show("  unpacking")
    _show("")
    if pip.returncode != 0:
        sys.stderr.write("".join(said[-_LAST_LINES:]))
        return pip.returncode
    print(f"installed in {time.monotonic() - begin:.0f} s", flush=True)
    return 0


def _command(files: list[str]) -> list[str]:
    words = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    words += ["--progress-bar", "off", "--require-hashes"]
    return words + [word for file in files for word in ("--requirement", file)]


def _show(text: str) -> None:
    """One line that changes, on a terminal; elsewhere a line for every tenth of them."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)
    elif text.partition(" of ")[0].endswith("0"):
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
