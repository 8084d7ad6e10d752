"""What readings of GPUs mean: health, slowness, idleness, use by others."""
