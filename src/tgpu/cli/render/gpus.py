"""GPUs and the cluster's summary as tables and facts."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from tgpu.cli.render.grid import Cell, Column, Grid, Line, clean, facts
from tgpu.cli.render.reservations import when_text
from tgpu.cli.render.words import number_text, sentence_text
from tgpu.text.durations import duration_text
from tgpu.text.sizes import mebibytes_text
from tgpu.wire.v1 import ClusterStatus, GpuList, GpuModel, GpuProcessModel

_BAR: Final = 8
_STYLES: Final = {
    "free": "green",
    "busy": "blue",
    "shared": "cyan",
    "paused": "magenta",
    "hot": "red",
    "foreign": "yellow",
    "problem": "red",
}
_COLUMNS: Final = (
    Column("GPU", right=True),
    Column("TYPE", least=4),
    Column("STATUS"),
    Column("MEMORY", leave_out=3),
    Column("USE", leave_out=2, right=True),
    Column("TEMP", leave_out=2, right=True),
    Column("JOBS", least=6, leave_out=1),
    Column("NOTE", least=24, leave_out=1),
)
_ALLOCATED: Final = Column("ALLOCATED", right=True)
_AT: Final = 3  # where that stands: behind the status
_HOT_CELSIUS: Final = 85  # where data-centre GPUs begin to slow themselves down


def gpu_grid(found: GpuList, now: int | None = None, *, allocated: bool = False) -> Grid:
    """With reservations where `now` says from when to look at them; `allocated`: how much of each
    jobs have."""
    names = shown_names(found.gpus)
    rows = zip(found.gpus, names, strict=True)
    grid = Grid(_COLUMNS, tuple(_row(gpu, name, now) for gpu, name in rows))
    if not allocated:
        return grid
    shares = [Cell(f"{gpu.allocated:.0%}") for gpu in found.gpus]
    both = zip(grid.rows, shares, strict=True)
    return Grid(
        (*_COLUMNS[:_AT], _ALLOCATED, *_COLUMNS[_AT:]),
        tuple((*row[:_AT], share, *row[_AT:]) for row, share in both),
    )


def shown_names(gpus: Sequence[GpuModel]) -> list[str]:
    """Their indexes, or with several nodes the names."""
    several = len({gpu.node for gpu in gpus}) > 1
    return [clean(gpu.gpu_name) if several else str(gpu.index) for gpu in gpus]


def gpu_counts(found: GpuList) -> str:
    """ "4 simulated A100", "2 A100, 1 H100", "no GPUs"."""
    word = "simulated " if found.simulated else ""
    counts = Counter(gpu.gpu_type for gpu in found.gpus)
    return ", ".join(f"{n} {word}{clean(kind)}" for kind, n in counts.items()) or "no GPUs"


def provider_line(found: GpuList) -> str:
    """Where the figures come from, and what is wrong with the source."""
    source = "simulated" if found.simulated else f"through {clean(found.provider)}"
    nodes = list(dict.fromkeys([found.node, *(gpu.node for gpu in found.gpus if gpu.node)]))
    on = clean(found.node) if len(nodes) == 1 else f"{len(nodes)} nodes ({clean(', '.join(nodes))})"
    line = f"{gpu_counts(found).replace('simulated ', '')} on {on}, {source}"
    return line + (f": {sentence_text(found.problem)}" if found.problem else "")


def process_lines(found: GpuList) -> list[Line]:
    """Every process on every GPU, ours and others'."""
    return [
        (Cell(f"GPU {name}: {_process(process)}"),)
        for gpu, name in zip(found.gpus, shown_names(found.gpus), strict=True)
        for process in gpu.processes
    ]


def status_facts(status: ClusterStatus) -> list[Line]:
    states = status.jobs_by_state
    counts = [f"{states[state]} {_waiting_word(state)}" for state in states if states[state]]
    kind = "simulated" if status.simulated else status.provider
    pairs = [
        ("scheduler", f"version {status.version}, up {duration_text(status.uptime_seconds)}"),
        ("jobs", ", ".join(counts) or "none yet"),
        ("GPUs", f"{number_text(status.available_gpus)} of {status.total_gpus} free ({kind})"),
        ("nodes", f"{status.online_nodes} of {status.total_nodes} online"),
        ("problem", sentence_text(status.problem or "")),
    ]
    return facts([(name, value) for name, value in pairs if value])


def status_details(status: ClusterStatus) -> list[Line]:
    pairs = [
        ("policy", status.policy),
        ("clock", status.clock),
        ("engine", status.engine),
    ]
    if status.store:  # where things are is for those who look after them
        pairs += [("store", status.store), ("data", status.data_dir or "none")]
    return facts(pairs)


def _row(gpu: GpuModel, name: str, now: int | None) -> tuple[Cell, ...]:
    use = "" if gpu.utilisation_percent is None else f"{gpu.utilisation_percent}%"
    return (
        Cell(name),
        Cell(clean(gpu.gpu_type)),
        Cell(_status(gpu), _STYLES.get(gpu.status, "")),
        Cell(memory_bar(gpu.memory_used_mb, gpu.memory_mb)),
        Cell(use),
        _temperature(gpu.temperature_c),
        Cell(clean(", ".join(gpu.jobs))),
        Cell(_note(gpu, now), "red" if gpu.problem else ""),
    )


def memory_bar(used_mb: int | None, total_mb: int) -> str:
    total = mebibytes_text(total_mb)
    if used_mb is None or total_mb <= 0:
        return total
    filled = min(_BAR, round(_BAR * used_mb / total_mb)) or (1 if used_mb else 0)
    return f"{'█' * filled}{'░' * (_BAR - filled)} {mebibytes_text(used_mb)}/{total}"


def _status(gpu: GpuModel) -> str:
    if gpu.status == "shared" and 0 < gpu.allocated < 1:
        return f"shared {gpu.allocated:.0%}"
    return gpu.status


def _temperature(celsius: int | None) -> Cell:
    if celsius is None:
        return Cell("")
    return Cell(f"{celsius}°C", "red" if celsius >= _HOT_CELSIUS else "")


def _note(gpu: GpuModel, now: int | None) -> str:
    foreign = [_process(process) for process in gpu.processes if process.job_id is None]
    parts = [
        f"problem: {sentence_text(gpu.problem)}" if gpu.problem else "",
        f"paused: {clean(gpu.paused)}" if gpu.paused else "",
        f"used by other programs: {'; '.join(foreign)}" if foreign else "",
        clean(gpu.foreign) if gpu.foreign and not foreign else "",
        clean(gpu.slow) if gpu.slow else "",
        f"slice of GPU {gpu.slice_of}" if gpu.slice_of is not None else "",
        "" if now is None else _booked(gpu, now),
    ]
    return "; ".join(part for part in parts if part)


def _booked(gpu: GpuModel, now: int) -> str:
    """The next reservation, and how many follow."""
    if not gpu.reservations:
        return ""
    first, *others = gpu.reservations
    whose = f" by {clean(first.tenant_id)}" if first.tenant_id else ""
    name = f" ({clean(first.id)})" if first.id else ""
    more = f", and {len(others)} more" if others else ""
    return f"reserved {when_text(first, now)}{whose}{name}{more}"


def _process(process: GpuProcessModel) -> str:
    owner = f"job {clean(process.job_id)}" if process.job_id else clean(process.user or "unknown")
    command = f" {clean(process.command)}" if process.command else ""
    age = "" if process.age_seconds is None else f" for {duration_text(process.age_seconds)}"
    return f"{owner} pid {process.pid}{command} {mebibytes_text(process.memory_mb)}{age}"


def _waiting_word(state: str) -> str:
    return {"pending": "waiting", "scheduled": "starting"}.get(state, state)
