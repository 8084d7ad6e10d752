"""What may stand after `tgpu submit`, by the names of its parameters."""

from collections.abc import Sequence
from typing import Any

from tgpu.cli.submit.option_fields import JobOptions


def options(command: Sequence[str], **others: Any) -> JobOptions:
    return {"command": command, **others}
