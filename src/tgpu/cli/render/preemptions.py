"""Receipts of preemptions as a table."""

from typing import Final

from tgpu.cli.render.grid import Cell, Column, Grid, clean
from tgpu.cli.render.words import between, number_text, sentence_text
from tgpu.text.durations import duration_text
from tgpu.text.instants import local_text
from tgpu.wire.preemptions_v1 import PreemptionList, PreemptionModel

_COLUMNS: Final = (
    Column("WHEN", least=19),
    Column("JOB", least=4),
    Column("TENANT", least=6, leave_out=1),
    Column("GPUS"),
    Column("FOR", least=4),
    Column("CAUSE"),
    Column("LOST"),
    Column("TOOK", leave_out=2),
    Column("WHY", least=12, leave_out=3),
)


def preemption_grid(found: PreemptionList) -> Grid:
    return Grid(_COLUMNS, tuple(_row(receipt) for receipt in found.preemptions))


def _row(receipt: PreemptionModel) -> tuple[Cell, ...]:
    return (
        Cell(local_text(receipt.asked_at)),
        Cell(clean(receipt.job_id)),
        Cell(clean(receipt.tenant_id)),
        Cell(number_text(receipt.gpu_count)),
        Cell("another job" if receipt.to is None else clean(receipt.to)),
        Cell(sentence_text(receipt.cause)),
        Cell(duration_text(receipt.lost_gpu_seconds)),
        Cell(_took(receipt)),
        Cell(clean(receipt.reason)),
    )


def _took(receipt: PreemptionModel) -> str:
    """From the decision until its GPUs were free."""
    return between(receipt.asked_at, receipt.gone_at)
