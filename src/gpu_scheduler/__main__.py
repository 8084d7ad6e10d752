"""`python -m gpu_scheduler` is `tgpu`."""

from gpu_scheduler.cli.main import run

run()
