"""Reservations as tables."""

from datetime import datetime
from typing import Final

from tgpu.cli.render.grid import Cell, Column, Grid, clean
from tgpu.cli.render.words import sentence_text
from tgpu.text.instants import span_text
from tgpu.wire.reservations_v1 import ReservationList, ReservationModel
from tgpu.wire.v1 import GpuReservationModel

_COLUMNS: Final = (
    Column("ID", least=4),
    Column("WHEN"),
    Column("GPUS"),
    Column("NODE", least=4, leave_out=4),
    Column("TENANT", least=6, leave_out=3),
    Column("USER", least=4, leave_out=5),
    Column("STATE"),
    Column("JOBS", least=6, leave_out=2),
    Column("NOTE", least=20, leave_out=1),
)


def reservation_grid(found: ReservationList, now: int) -> Grid:
    return Grid(_COLUMNS, tuple(_row(each, now) for each in found.reservations))


def gpus_text(reservation: ReservationModel) -> str:
    """ "4 A100 (0-3)" """
    count = len(reservation.gpus)
    return f"{count} {clean(reservation.gpu_type)} ({indexes_text(reservation.gpus)})"


def indexes_text(indexes: list[int]) -> str:
    """ "0-3,6" """
    runs: list[list[int]] = []
    for index in indexes:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


def when_text(reservation: ReservationModel | GpuReservationModel, now: int) -> str:
    return span_text(millis(reservation.starts_at), millis(reservation.ends_at), now)


def millis(iso: str) -> int:
    return round(datetime.fromisoformat(iso).timestamp() * 1000)


def _row(reservation: ReservationModel, now: int) -> tuple[Cell, ...]:
    return (
        Cell(clean(reservation.id)),
        Cell(when_text(reservation, now)),
        Cell(gpus_text(reservation)),
        Cell(clean(reservation.node)),
        Cell(clean(reservation.tenant_id)),
        Cell(clean(reservation.user)),
        Cell(reservation.state, "green" if reservation.state == "open" else ""),
        Cell(clean(", ".join(reservation.jobs))),
        Cell(sentence_text(reservation.problem or ""), "red"),
    )
