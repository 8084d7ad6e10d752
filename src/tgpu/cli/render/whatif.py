"""The past as it was and as it would have been, side by side."""

from collections.abc import Callable
from dataclasses import asdict

from tgpu.app.whatif import Compared
from tgpu.cli.render.grid import Cell, Column, Grid, clean
from tgpu.cli.render.words import plural
from tgpu.journal.compare import ComparedFigures, ComparedTenantFigures
from tgpu.text.durations import duration_text, tenths_text

_Shown = tuple[tuple[str, ComparedFigures], ...]


def headline(found: Compared) -> str:
    past = found.past
    length = duration_text((past.ends - past.begins) / 1000)
    jobs = plural(found.really.jobs, "job")
    gpus = found.simulated.offered_gpu_hours * 3_600_000 / max(1, past.ends - past.begins)
    return f"{length} with {jobs} on {gpus:,.0f} GPUs"


def _columns(found: Compared) -> _Shown:
    shown: _Shown = (("REALLY", found.really), ("SIMULATED", found.simulated))
    return shown if found.changed is None else (*shown, ("CHANGED", found.changed))


def summary_grid(found: Compared) -> Grid:
    shown = _columns(found)
    columns = (Column(""), *(Column(name, right=True) for name, _ in shown))
    has_difference = found.changed is not None
    if has_difference:
        columns = (*columns, Column("DIFFERENCE", right=True))

    def row(
        title: str, value: Callable[[ComparedFigures], float], text: Callable[[float], str]
    ) -> tuple[Cell, ...]:
        cells = [Cell(title), *(Cell(text(value(one))) for _, one in shown)]
        if found.changed is not None:
            more = value(found.changed) - value(found.simulated)
            cells.append(Cell(_signed(more, text)))
        return tuple(cells)

    rows = [
        row("jobs started", lambda one: one.started, _count),
        row("jobs ended", lambda one: one.ended, _count),
        row("wait, mean", lambda one: one.wait_s.mean, tenths_text),
        row("wait, median", lambda one: one.wait_s.median, tenths_text),
        row("wait, p90", lambda one: one.wait_s.p90, tenths_text),
        row("wait, longest", lambda one: one.wait_s.max, tenths_text),
        row("GPUs in use, %", lambda one: one.use_percent, _one),
        row("GPU hours used", lambda one: one.gpu_hours, _two),
        row("GPU hours there were", lambda one: one.offered_gpu_hours, _two),
    ]
    if any(one.preemptions for _, one in shown):
        rows.append(row("preemptions", lambda one: one.preemptions, _count))
        rows.append(row("GPU hours lost by them", lambda one: one.lost_gpu_hours, _two))
    if found.cost_per_gpu_hour:
        rows.append(row("cost of what was used", lambda one: one.cost, _two))
        rows.append(
            row(
                "cost of what there was",
                lambda one: one.offered_gpu_hours * found.cost_per_gpu_hour,
                _two,
            )
        )
    rows.append(row("fairness of tenants", lambda one: one.fairness, _three))
    return Grid(columns, tuple(rows))


def tenant_grid(found: Compared) -> Grid:
    shown = _columns(found)
    columns = [Column("TENANT", least=8), Column("JOBS", right=True)]
    columns += [Column(f"WAIT {_short(name)}", right=True) for name, _ in shown]
    columns += [Column(f"SHARE {_short(name)}", right=True) for name, _ in shown]
    by_name = [{one.tenant: one for one in figures.tenants} for _, figures in shown]
    rows = []
    for tenant in found.really.tenants:
        each: list[ComparedTenantFigures] = [table.get(tenant.tenant, tenant) for table in by_name]
        rows.append(
            (
                Cell(clean(tenant.tenant)),
                Cell(f"{tenant.jobs:,}"),
                *(Cell(tenths_text(one.mean_wait_s)) for one in each),
                *(Cell(f"{one.share_percent:.1f}%") for one in each),
            )
        )
    return Grid(tuple(columns), tuple(rows))


def document(found: Compared) -> dict[str, object]:
    return {
        "begins": found.past.begins,
        "ends": found.past.ends,
        "really": asdict(found.really),
        "simulated": asdict(found.simulated),
        "changed": None if found.changed is None else asdict(found.changed),
        "cost_per_gpu_hour": found.cost_per_gpu_hour,
        "notes": list(found.notes),
    }


def _short(name: str) -> str:
    return {"REALLY": "REAL", "SIMULATED": "SIM", "CHANGED": "CHANGED"}[name]


def _signed(value: float, text: Callable[[float], str]) -> str:
    shown = text(abs(value))
    if shown == text(0):
        return "same"
    return f"+{shown}" if value > 0 else f"-{shown}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _one(value: float) -> str:
    return f"{value:,.1f}"


def _two(value: float) -> str:
    return f"{value:,.2f}"


def _three(value: float) -> str:
    return f"{value:.3f}"
