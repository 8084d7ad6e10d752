"""`python -m tgpu` is `tgpu`."""

from tgpu.cli.main import run

run()
