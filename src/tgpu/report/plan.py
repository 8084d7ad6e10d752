"""What a report draws, with limits: a page with a million bars opens nowhere."""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Final, NamedTuple

from tgpu.core.model.lifecycle import JobState
from tgpu.core.model.units import GPU
from tgpu.drawing.palette import OTHERS, SERIES, colours_of
from tgpu.drawing.plots import Bar, PlotRow, Track
from tgpu.report.collect import AttemptRun, Collected, GpuName
from tgpu.report.figures import Figures
from tgpu.text.durations import rounded_text

MOST_ROWS: Final = 64
MOST_BARS: Final = 4_000
_BAD: Final = frozenset({JobState.FAILED})


class Colours:
    """Those that use most have one each, the same in every report, and all others share one."""

    def __init__(self, used: Mapping[str, float], seen: Iterable[str]) -> None:
        """`used`: by name, the most first; `seen`: all there ever were, as they came."""
        self._colours = colours_of(seen)
        self._named = [name for name, much in used.items() if much]
        self.names = self._named[: SERIES - 1]
        self._has_others = len(self._named) > len(self.names)

    @classmethod
    def of_tenants(cls, found: Collected, numbers: Figures) -> "Colours":
        used = {str(each.tenant_id): each.gpu_hours for each in numbers.tenants}
        return cls(used, found.tenants_seen)

    @classmethod
    def of_users(cls, found: Collected, numbers: Figures) -> "Colours":
        used: dict[str, float] = {}
        for each in numbers.users:
            name = user_name(each.user)
            used[name] = used.get(name, 0.0) + each.gpu_hours
        most_first = dict(sorted(used.items(), key=lambda item: (-item[1], item[0])))
        return cls(most_first, map(user_name, found.users_seen))

    def of(self, name: str) -> str:
        return self._colours.get(name, OTHERS) if name in self.names else OTHERS

    def keys(self) -> list[tuple[str, str]]:
        others = [(OTHERS, "others")] if self._has_others else []
        return [*((self.of(name), name) for name in self.names), *others]


def user_name(user: str) -> str:
    return user or "nobody named"


class Drawn(NamedTuple):
    rows: Sequence[PlotRow]
    note: str  # what is left out; "" for nothing


def gpu_rows(use: dict[GpuName, list[float]]) -> Drawn:
    """A row a GPU; where there are too many a row a node, and then the first of those."""
    if len(use) <= MOST_ROWS:
        return Drawn([PlotRow(gpu_name(name), amounts) for name, amounts in use.items()], "")
    nodes: dict[str, list[list[float]]] = {}
    for (node, _), amounts in use.items():
        nodes.setdefault(node, []).append(amounts)
    rows = [
        PlotRow(node, [sum(step) / len(gpus) for step in zip(*gpus, strict=True)])
        for node, gpus in list(nodes.items())[:MOST_ROWS]
    ]
    note = f"{len(use):,} GPUs are too many for a row each: a row is a node."
    if len(nodes) > MOST_ROWS:
        note += f" The first {MOST_ROWS} of {len(nodes):,} nodes are shown."
    return Drawn(rows, note)


class DrawnTracks(NamedTuple):
    tracks: Sequence[Track]
    note: str


def gantt(found: Collected, use: dict[GpuName, list[float]], colours: Colours) -> DrawnTracks:
    """Who had which GPU when: of many GPUs the busiest, of many attempts the longest."""
    names = list(use)
    notes = []
    if len(names) > MOST_ROWS:
        busiest = nlargest(MOST_ROWS, names, key=lambda name: sum(use[name]))
        notes.append(f"the {MOST_ROWS} busiest of {len(names):,} GPUs")
        names = sorted(busiest)
    shown = set(names)
    pieces = [
        (run, (held.node, held.gpu), held.millis)
        for run in found.runs
        for held in run.gpus
        if (held.node, held.gpu) in shown
    ]
    if len(pieces) > MOST_BARS:
        notes.append(f"the {MOST_BARS:,} longest of {len(pieces):,} stretches")
        pieces = nlargest(MOST_BARS, pieces, key=lambda piece: piece[0].until - piece[0].since)
    by_gpu: dict[GpuName, list[tuple[AttemptRun, int]]] = {name: [] for name in names}
    for run, name, millis in pieces:
        by_gpu[name].append((run, millis))
    tracks = [Track(gpu_name(name), _bars(runs, colours)) for name, runs in by_gpu.items()]
    return DrawnTracks(tracks, f"Shown are {' and '.join(notes)}." if notes else "")


def gpu_name(name: GpuName) -> str:
    return f"{name[0]} GPU {name[1]}"


def _bars(runs: list[tuple[AttemptRun, int]], colours: Colours) -> list[Bar]:
    """Those that share a GPU lie on each other, each as high as its part."""
    bars: list[Bar] = []
    there: list[tuple[int, float, float]] = []  # until when, from which height, up to which
    for run, millis in sorted(runs, key=lambda each: (each[0].since, each[0].job_id)):
        there = sorted((one for one in there if one[0] > run.since), key=lambda one: one[1])
        high = min(1.0, millis / GPU)
        low = 0.0
        for _, begin, end in there:
            if begin - low >= high - 1e-9:
                break
            low = max(low, end)
        low = min(low, 1 - high)
        there.append((run.until, low, low + high))
        bars.append(
            Bar(
                _title(run),
                run.since / 1000,
                run.until / 1000,
                low,
                low + high,
                colours.of(str(run.tenant_id)),
                run.state in _BAD,
            )
        )
    return bars


def _title(run: AttemptRun) -> str:
    name = f" {run.name}" if run.name else ""
    whose = f"{run.user} of {run.tenant_id}" if run.user else str(run.tenant_id)
    ran = rounded_text((run.until - run.since) / 1000)
    return f"job {run.job_id}{name}, {whose}, {run.state.value}, {ran}"
