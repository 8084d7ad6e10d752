"""Reservations as tables."""

from typing import Final

from tgpu.cli.render.grid import Cell, Column, Grid, clean
from tgpu.cli.render.words import sentence_text
from tgpu.text.gpu_names import index_ranges
from tgpu.text.instants import iso_millis, span_text
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
    return f"{count} {clean(reservation.gpu_type)} ({index_ranges(reservation.gpus)})"


def when_text(reservation: ReservationModel | GpuReservationModel, now: int) -> str:
    return span_text(iso_millis(reservation.starts_at), iso_millis(reservation.ends_at), now)


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
