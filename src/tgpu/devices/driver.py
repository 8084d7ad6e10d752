"""Whether there is a driver for GPUs on this machine at all."""

import shutil
from pathlib import Path


def has_driver() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None
