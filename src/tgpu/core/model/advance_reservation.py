"""Advance reservations: GPUs reserved for a time, and who may use them before and during it."""

from dataclasses import dataclass

from tgpu.core.model.ids import NodeId, TenantId


@dataclass(frozen=True, slots=True)
class AdvanceReservation:
    """Whole GPUs of one node from `starts_at` until `ends_at`, for jobs that name the booking.

    Before it starts, jobs that are over by then may have them. When it starts, jobs still on them
    are preempted. Unused for `unused_ms` after its start, it is given back.
    """

    booking_id: str
    tenant_id: TenantId
    node_id: NodeId
    gpus: tuple[int, ...]  # indexes, ascending
    gpu_type: str
    starts_at: int
    ends_at: int
    user: str = ""
    unused_ms: int | None = None  # None: kept until it ends
    used: bool = False  # a job of it has run

    @property
    def unused_at(self) -> int | None:
        """When it is given back unless a job of it runs or waits; None: it is not."""
        return None if self.used or self.unused_ms is None else self.starts_at + self.unused_ms

    def overlaps(self, starts_at: int, ends_at: int) -> bool:
        return self.starts_at < ends_at and starts_at < self.ends_at

    def next_at(self, now: int) -> int | None:
        """The next instant after `now` at which time alone changes something about it."""
        instants = (self.starts_at, self.ends_at, self.unused_at)
        return min((at for at in instants if at is not None and at > now), default=None)
