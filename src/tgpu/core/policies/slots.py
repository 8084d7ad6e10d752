"""The plug-in interface of policies: the order of waiting jobs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeGuard

from tgpu.core.capacity.ledger import TenantUse
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Job, JobClass
from tgpu.core.model.tenant import TenantQueue
from tgpu.core.state.cluster_state import Entry, State
from tgpu.core.state.waiting_queue import ClassQueue

SortKey = tuple[int, int, JobId]


Standing = tuple[int, int]  # of a tenant, then of a user inside it


class Order(Protocol):
    """A total order over waiting jobs, lowest first: standing, then key. Made for one cycle."""

    is_flat: ClassVar[bool]  # all stand alike: `standing` need not be asked

    def standing(self, use: TenantUse, user: str) -> Standing:
        """How much of their share a tenant and its user have. Never falls as they get more, so
        that a start can only move the rest of their jobs back."""

    def sort_key(
        self, job_class: JobClass, queue: TenantQueue | None, submitted_at: int, job_id: JobId
    ) -> SortKey:
        """Inside one class a later `(submitted_at, job_id)` must never get a lower key: the cycle
        takes each class in that order and compares only the heads."""


Rank = tuple[int, int]  # lower goes first; equal ranks leave each other alone


class Ranking(Order, Protocol):
    """An order in which running jobs have a rank too: those of a higher one are preempted."""

    def rank(self, entry: Entry) -> Rank:
        """Of a job that waits or runs. Preemption never lowers it: or two could preempt each other
        in turn for ever."""

    def patience_ms(self, rank: Rank, costs_ms: int, victims: int) -> int:
        """How long a job of this rank waits before so many, who lose so much, are preempted."""


class Parted(Order, Protocol):
    """An order in which jobs of one class may stand apart, by when they were submitted."""

    def parts(self, queues: Iterable[ClassQueue]) -> Iterable[ClassQueue]:
        """The classes, some of them in parts: inside each, as inside a class, the oldest stands
        for all."""


def is_parted(order: Order) -> TypeGuard[Parted]:
    return hasattr(order, "parts")


def is_ranking(order: Order) -> TypeGuard[Ranking]:
    return hasattr(order, "patience_ms")  # the cycle asks each time: isinstance is much slower


class OrderPolicy(Protocol):
    """An order by keys: the fast way."""

    name: ClassVar[str]

    def at(self, state: State, now: int) -> Order: ...


@dataclass(frozen=True, slots=True)
class ChoicePolicy:
    """An order given by asking again and again: the way of plug-ins that know nothing of classes.

    It is shown every waiting job of a queue and names one, or None to serve no more of them. Its
    cost grows with what waits.
    """

    name: str
    choose: Callable[[TenantQueue, Sequence[Job]], Job | None]
    # Asked for a job that cannot start, again and again until it could: which one to preempt?
    victim: Callable[[Sequence[Job], Job], Job | None] = lambda running, job: None


Policy = OrderPolicy | ChoicePolicy
