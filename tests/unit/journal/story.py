"""A short story as a journal: two GPUs, a job that has both, one that waits, one that passes it."""

from collections.abc import Sequence
from pathlib import Path

from tests.builders import a_job, a_node, a_tenant
from tgpu.core.model import lifecycle
from tgpu.core.model.events import (
    Event,
    JobMoved,
    JobsSubmitted,
    NodeSet,
    SettingsSet,
    TenantSet,
)
from tgpu.core.model.ids import JobId, NodeId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import PENDING, JobState, Move, Progress
from tgpu.core.model.node import Placement, Share
from tgpu.journal.lines import end_line, header_line, row_line
from tgpu.store import codec, event_codec

SETTINGS = {"scheduler.policy": "fifo", "scheduler.backfill": "greedy"}
NODE = a_node("n0", gpus=2)
TENANT = a_tenant("default")


def jobs() -> tuple[Job, Job, Job]:
    return (
        a_job("big", gpus=1, submitted_at=1000),
        a_job("mine", gpus=2, submitted_at=2000),
        a_job("hers", gpus=1, submitted_at=3000),
    )


def started(job: Job, at: int, *gpus: int) -> tuple[JobMoved, Progress]:
    place = Placement(NodeId("n0"), "A100", tuple(Share(gpu, 1000) for gpu in gpus))
    progress = lifecycle.place(job.job_id, PENDING, place, at)
    return JobMoved(at, job.job_id, Move.START, progress), progress


def ended(job_id: JobId, progress: Progress, at: int) -> JobMoved:
    over = lifecycle.end(job_id, progress, JobState.COMPLETED, at, exit_code=0)
    return JobMoved(at, job_id, Move.COMPLETE, over)


def events() -> list[Event]:
    big, mine, hers = jobs()
    first, of_big = started(big, 1000, 0)
    second, of_hers = started(hers, 3000, 1)
    third, of_mine = started(mine, 61_000, 0, 1)
    return [
        SettingsSet(500, "0.1.0", SETTINGS),
        TenantSet(500, TENANT),
        NodeSet(500, NODE),
        JobsSubmitted(1000, (big,)),
        first,
        JobsSubmitted(2000, (mine,)),
        JobsSubmitted(3000, (hers,)),
        second,
        ended(big.job_id, of_big, 31_000),
        ended(hers.job_id, of_hers, 61_000),
        third,
        ended(mine.job_id, of_mine, 71_000),
    ]


def lines(told: Sequence[Event] | None = None) -> list[bytes]:
    told = events() if told is None else told
    header = header_line(
        exported_at=80_000,
        last_seq=len(told),
        settings=SETTINGS,
        nodes=[codec.node_text(NODE)],
        tenants=[codec.tenant_text(TENANT)],
    )
    rows = [
        row_line(seq, event_codec.kind_of(event), event_codec.event_text(event, {}).encode())
        for seq, event in enumerate(told, 1)
    ]
    return [header, *rows, end_line(len(rows), len(rows))]


def a_file(directory: Path, told: Sequence[Event] | None = None) -> Path:
    path = directory / "journal.ndjson"
    path.write_bytes(b"".join(lines(told)))
    return path
