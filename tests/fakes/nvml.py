"""The simulated NVML library for tests: building it, setting its state, reading through it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from tgpu.devices.api import Snapshot

_HERE = Path(__file__).parent
_LIBRARY = "libnvidia-ml.so.1"


def compiler() -> str | None:
    return shutil.which("gcc")


def build_library(folder: Path) -> Path:
    """Compile the library into `folder`, which then belongs in LD_LIBRARY_PATH."""
    options = ["-O1", "-Wall", "-shared", "-fPIC", "-pthread", f"-Wl,-soname,{_LIBRARY}"]
    command = [compiler() or "gcc", *options, "-o", str(folder / _LIBRARY), str(_HERE / "nvml.c")]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return folder


class FakeNvml:
    """A process in which NvmlProvider reads the simulated library, steered from here."""

    def __init__(self, library_folder: Path, scratch: Path, **state: Any) -> None:
        self._state_file = scratch / "nvml-state.json"
        self.sysfs = scratch / "sys"
        self.set(**state)
        self.environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(library_folder),
            "FAKE_NVML_STATE": str(self._state_file),
        }
        self._process: subprocess.Popen[str] | None = None

    def set(self, **state: Any) -> None:
        """Replace the whole state: count=8, all={…}, gpus={3: {…}}."""
        # The library applies keys as they stand, and "all" must come before "gpus".
        ordered = {
            key: state[key] for key in ("init_error", "count", "all", "gpus") if key in state
        }
        assert ordered.keys() == state.keys()
        new = self._state_file.with_suffix(".new")
        new.write_text(json.dumps(ordered))
        new.rename(self._state_file)

    def read(self) -> Snapshot:
        return msgspec.convert(self.ask("read"), Snapshot)

    def ask(self, command: str) -> Any:
        """Send one command to the process (see nvml_reader.py) and return its answer."""
        process = self._started()
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(command + "\n")
        stdin.flush()
        line = stdout.readline()
        assert line, "the reader process died"
        return json.loads(line)

    def close(self) -> int | None:
        """The exit code of the process."""
        if self._process is None:
            return None
        self._process.communicate(timeout=30)
        return self._process.returncode

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(_HERE / "nvml_reader.py"), str(self.sysfs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=self.environment,
            )
        return self._process
