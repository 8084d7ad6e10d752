"""The nodes as they are: GPUs, their health, processes on them, machines that report."""
