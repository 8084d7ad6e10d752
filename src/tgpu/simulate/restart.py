"""The cost of preemption in a simulation: lost work, and the restart."""

from dataclasses import dataclass, replace
from typing import Final

from tgpu.core.model.units import GPU


@dataclass(frozen=True, slots=True)
class Restart:
    """After preemption. By default all that a job did is lost, which is true of most programs."""

    keeps_work: bool = False
    checkpoint_ms: int | None = None  # how often jobs save what they did; None: never
    overhead_ms: int = 0  # of extra work each time, up to `large_gpus` GPUs
    large_overhead_ms: int = 0  # and beyond
    large_gpus: int = 8
    linger_ms: int = 0  # its GPUs come back only so long after the work is done

    def left_ms(self, left_ms: int, ran_ms: int, gpu_millis: int) -> int:
        """How long a job still has to run that had `left_ms` to go and got `ran_ms` of them."""
        kept = 0
        if self.keeps_work:
            kept = ran_ms
        elif self.checkpoint_ms:
            kept = ran_ms - ran_ms % self.checkpoint_ms
        is_large = gpu_millis > self.large_gpus * GPU
        return left_ms - kept + (self.large_overhead_ms if is_large else self.overhead_ms)


LOSES_ALL: Final = Restart()

# The costs that published comparisons on the public traces use.
PUBLISHED: Final = Restart(keeps_work=True, overhead_ms=40_000, large_overhead_ms=60_000)
# The same as the authors' own simulator counts them: it notices an end a second later.
NOTICED_LATE: Final = replace(PUBLISHED, linger_ms=1_000)
