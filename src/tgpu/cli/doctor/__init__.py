"""`tgpu doctor` and `tgpu test`: their checks, and what those found."""
