"""Why a driver slows a GPU down, from NVML's bits and nvidia-smi's columns to words."""

from typing import Final

# The bits of nvmlClocksEventReasons (nvml.h). Idle, clock settings and sync boost are left out:
# nobody asked such a GPU to go faster.
_BITS: Final = (
    (0x4, "power cap"),
    (0x8, "hardware slowdown"),
    (0x20, "overheated"),  # the driver's own thermal limit
    (0x40, "overheated"),  # the hardware's
    (0x80, "power brake"),
)


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """In words, each once."""
    return tuple(dict.fromkeys(word for bit, word in _BITS if bits & bit))
