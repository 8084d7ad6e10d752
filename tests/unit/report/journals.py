"""Journals for tests, made of events as the service records them."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tgpu.core.model import lifecycle
from tgpu.core.model.cause import Fault
from tgpu.core.model.events import Event, JobMoved, JobsSubmitted, NodeSet
from tgpu.core.model.ids import JobId, NodeId, TenantId
from tgpu.core.model.job import Array, Detail, Job, Options, Request
from tgpu.core.model.lifecycle import PENDING, JobState, Move, Progress
from tgpu.core.model.node import Gpu, Node, Placement, Share
from tgpu.journal.lines import Journal, end_line, header_line, row_line
from tgpu.report.collect import PRICE
from tgpu.store import event_codec

DAY = 86_400_000
HOUR = 3_600_000
T0 = 1_762_000_000_000  # some day of 2025


def a_node(name: str = "local", gpus: int = 4, gpu_type: str = "A100") -> Node:
    made = tuple(Gpu(n, f"GPU-{name}-{n}", gpu_type, 80_000) for n in range(gpus))
    return Node(NodeId(name), made, 1000, 1000)


def a_journal(
    events: Sequence[Event],
    *,
    until: int,
    price: float = 0.0,
    names: dict[str, str] | None = None,
) -> Journal:
    details = {JobId(key): Detail(name=name) for key, name in (names or {}).items()}
    head = header_line(exported_at=until, last_seq=len(events), settings={PRICE: price})
    rows = [
        row_line(seq, event_codec.kind_of(event), event_codec.event_text(event, details).encode())
        for seq, event in enumerate(events, 1)
    ]
    return Journal("test", [head, *rows, end_line(len(events), len(events))])


def nodes(*made: Node, at: int = T0) -> list[Event]:
    return [NodeSet(at, node) for node in made]


class Story:
    """One job, step by step."""

    def __init__(
        self,
        job_id: str,
        at: int,
        gpus: int = 1000,
        tenant: str = "vision",
        user: str = "",
        array: Array | None = None,
    ) -> None:
        self.job = Job(
            JobId(job_id),
            TenantId(tenant),
            500,
            at,
            Request(gpus),
            options=Options(user=user),
            array=array,
        )
        self.progress = PENDING
        self.events: list[Event] = [JobsSubmitted(at, (self.job,))]

    def start(
        self, at: int, gpus: Iterable[int] = (0,), node: str = "local", millis: int = 1000
    ) -> "Story":
        shares = tuple(Share(index, millis) for index in gpus)
        placement = Placement(NodeId(node), "A100", shares)
        self._move(at, Move.START, lifecycle.place(self.job.job_id, self.progress, placement, at))
        self._move(at, Move.RUN, lifecycle.run(self.job.job_id, self.progress, at, 1))
        return self

    def end(
        self, at: int, state: JobState = JobState.COMPLETED, fault: Fault | None = None
    ) -> "Story":
        move = {
            JobState.COMPLETED: Move.COMPLETE,
            JobState.FAILED: Move.FAIL,
            JobState.CANCELLED: Move.CANCEL,
        }[state]
        ended = lifecycle.end(self.job.job_id, self.progress, state, at)
        self._move(at, move, replace(ended, fault=fault))
        return self

    def preempt(self, at: int) -> "Story":
        self._move(at, Move.PREEMPT, lifecycle.preempt(self.job.job_id, self.progress, at, 1000))
        back = lifecycle.requeue(self.job.job_id, self.progress, at, "preempted", False)
        self._move(at, Move.REQUEUE, back)
        return self

    def _move(self, at: int, move: Move, progress: Progress) -> None:
        self.progress = progress
        self.events.append(JobMoved(at, self.job.job_id, move, progress))


def in_order(*stories: Story) -> list[Event]:
    found = [event for story in stories for event in story.events]
    return sorted(found, key=lambda event: event.at)
