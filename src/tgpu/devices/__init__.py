"""What GPUs there are and how they feel: NVML, nvidia-smi or simulated."""
