"""The GPUs of this machine and their readings: NVML, nvidia-smi or simulated."""
