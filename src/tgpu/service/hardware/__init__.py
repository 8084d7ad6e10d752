"""The hardware: GPUs, their health, processes on them, nodes with agents."""
