"""Commands that pause and resume running jobs. For GPUs see `pausing.py`."""

from tgpu.cli.jobs.selecting import plain_change
from tgpu.cli.options import examples

PAUSE_EPILOG = examples(
    "tgpu pause 12", "tgpu pause --name sweep", "tgpu resume 12", "tgpu pause-gpu 3    (a GPU)"
)
RESUME_EPILOG = examples("tgpu resume 12", "tgpu resume --all")

pause = plain_change(
    "pause",
    """Pause running jobs until `tgpu resume`. They keep their GPUs.

    Every process gets SIGSTOP. The job keeps and pays for its GPUs and memory, and its time limit
    keeps running; to free its GPUs, cancel it. For GPUs: tgpu pause-gpu.
    """,
)
resume = plain_change("resume", "Resume paused jobs. For GPUs: tgpu resume-gpu.")
