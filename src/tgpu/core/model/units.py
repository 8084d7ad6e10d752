"""Integer amounts. GPUs are counted in thousandths so that half a GPU is no special case."""

from decimal import Decimal, InvalidOperation, Overflow
from typing import Final

GPU: Final = 1000  # one whole GPU in gpu_millis
CPU: Final = 1000  # one core in cpu_millis
SECOND: Final = 1000  # in ms
GPU_HOUR: Final = 3_600_000 * GPU  # in thousandths of a GPU times ms

GPU_STEP: Final = 10  # the finest share: 0.01 GPU
MIN_GPU_MILLIS: Final = GPU_STEP  # the smallest share is one step
MAX_GPU_MILLIS: Final = 100_000 * GPU  # a typing error, not a cluster


def gpu_millis(amount: int | float | str | Decimal) -> int:
    """GPUs as people write them (2, 0.5, "1.5") in thousandths; ValueError says what would do."""
    try:
        exact = Decimal(str(amount)) * GPU
    except (InvalidOperation, Overflow):
        raise ValueError(f"GPUs must be a number like 1, 2 or 0.5, not {amount!r}") from None
    if not exact.is_finite():
        raise ValueError(f"GPUs must be a number like 1, 2 or 0.5, not {amount!r}")
    if exact < MIN_GPU_MILLIS:
        raise ValueError(f"GPUs must be at least 0.01, not {amount}")
    if exact > MAX_GPU_MILLIS:
        raise ValueError(f"GPUs must be at most {MAX_GPU_MILLIS // GPU}, not {amount}")
    if exact % GPU_STEP:
        raise ValueError(f"GPUs come in steps of 0.01, so {amount} is not possible")
    return int(exact)


def gpu_hours(gpu_millis_ms: int) -> float:
    """For people, to a microhour and finer. No decision looks at it."""
    return round(gpu_millis_ms / GPU_HOUR, 9)


def gpus_text(millis: int) -> str:
    """Thousandths as people write them: 2000 is "2", 500 is "0.5"."""
    whole, rest = divmod(millis, GPU)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)


def memory_text(mib: int) -> str:
    """As a person would say it: 40960 is "40 GiB", 10485760 is "10 TiB". Never rounded: 81921 is
    "81921 MiB", because whoever reads of two amounts must see which is larger."""
    amount, unit = Decimal(mib), "MiB"
    for larger in ("GiB", "TiB", "PiB"):
        above = amount / 1024
        if abs(above) < 1 or above != round(above, 2):
            break
        amount, unit = above, larger
    return f"{amount.normalize():f} {unit}"
