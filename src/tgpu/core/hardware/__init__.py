"""The meaning of GPU readings: health, slowness, idleness, external use."""
