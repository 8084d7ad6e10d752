"""`tgpu doctor` and `tgpu test`: their checks and findings."""
