"""How much of a cluster's GPUs a list of requests fills, by the core's own placement.

The experiment of the literature on fragmentation: requests come one at a time in random order,
until they want more than there is; what fits nowhere is dropped, and nothing ever ends.
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Final

from tgpu.core.model.events import MixSet, NodeSet, TenantSet
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import ANYWHERE, DEFAULT_PRIORITY, Job, Request, Where, class_of
from tgpu.core.model.node import Node
from tgpu.core.model.request_profile import RequestProfile, learn, shape_of
from tgpu.core.model.tenant import Tenant
from tgpu.core.model.units import GPU
from tgpu.core.placement.place import place
from tgpu.core.state.cluster_state import State
from tgpu.simulate.problems import BadInput, InputProblem
from tgpu.simulate.rows import MOST_GPUS, Refused, whole
from tgpu.simulate.traces import open_text

_NEEDED: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TELL_EVERY: Final = 100
_TENANT: Final = TenantId("pods")


@dataclass(frozen=True, slots=True)
class Pod:
    name: str
    request: Request


@dataclass(frozen=True, slots=True)
class Packed:
    """What became of one order of the requests."""

    seed: int
    requests: int
    dropped: int
    allocated_millis: int
    total_millis: int
    seconds: float

    @property
    def allocated_percent(self) -> float:
        return 100 * self.allocated_millis / self.total_millis

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds if self.seconds else 0.0


# -- the list ------------------------------------------------------------------------------------


def read_pods(path: Path) -> list[Pod]:
    """A CSV with name, cpu_milli, memory_mib, num_gpu, gpu_milli and, where it is, gpu_spec."""
    with open_text(path) as file:
        table = csv.DictReader(file)
        columns = table.fieldnames or ()
        missing = [name for name in _NEEDED if name not in columns]
        if missing:
            text = f"this column is missing; there are: {', '.join(columns) or 'none'}"
            raise BadInput(
                path.name, [InputProblem(1, name, text, "missing column") for name in missing]
            )
        return _pods(path.name, table)


def _pods(file: str, table: "csv.DictReader[str]") -> list[Pod]:
    pods: dict[str, Pod] = {}
    known: dict[Request, Request] = {}  # thousands are alike
    problems: list[InputProblem] = []
    for row in table:
        try:
            pod = _pod(row)
            if pod.name in pods:
                raise Refused("name", f"{pod.name} is there twice", "duplicate id")
        except Refused as error:
            problems.append(InputProblem(table.line_num, error.column, error.text, error.kind))
            continue
        pods[pod.name] = Pod(pod.name, known.setdefault(pod.request, pod.request))
    if not problems and not any(pod.request.gpu_millis for pod in pods.values()):
        problems.append(InputProblem(1, "num_gpu", "it has no requests for GPUs", "no data"))
    if problems:
        raise BadInput(file, problems)
    return list(pods.values())


def _pod(row: Mapping[str, str | None]) -> Pod:
    def number(column: str) -> int:
        return whole(column, row.get(column) or "")

    name, gpus = (row.get("name") or "").strip(), number("num_gpu")
    if not name:
        raise Refused("name", "is empty; every request has a name of its own", "no id")
    if gpus > MOST_GPUS:
        raise Refused("num_gpu", f"{gpus:,} GPUs; the maximum is {MOST_GPUS:,}", "GPUs")
    millis = gpus * GPU
    if gpus == 1:
        millis = number("gpu_milli")
        if not 0 < millis <= GPU:
            text = f"{millis} thousandths of a GPU; it must be 1 to {GPU}"
            raise Refused("gpu_milli", text, "GPUs")
    spec = (row.get("gpu_spec") or "").strip()
    where = Where(gpu_types=tuple(spec.split("|"))) if spec else ANYWHERE
    cpu_millis, mem_mib = number("cpu_milli"), number("memory_mib")
    request = Request(millis, cpu_millis=cpu_millis, mem_mib=mem_mib, where=where)
    return Pod(name, request)


# -- the experiment ------------------------------------------------------------------------------


def mix_of(pods: Iterable[Pod]) -> RequestProfile | None:
    """What a service has learnt that has seen the list."""
    return learn(Counter(shape_of(pod.request) for pod in pods), fewest=1)


def order(pods: Sequence[Pod], seed: int, most_millis: int) -> list[Request]:
    """All of the list shuffled, then some of it again, as long as they want no more than this."""
    rng = Random(seed)
    listed = [pod.request for pod in sorted(pods, key=lambda pod: pod.name)]
    shuffled = list(listed)
    rng.shuffle(shuffled)
    found: list[Request] = []
    wanted = 0
    while True:
        number = len(found)
        request = shuffled[number] if number < len(shuffled) else rng.choice(listed)
        wanted += request.gpu_millis
        if wanted > most_millis:
            return found
        found.append(request)


def pack(
    nodes: Sequence[Node],
    requests: Sequence[Request],
    mix: RequestProfile | None,
    *,
    seed: int = 0,
    tell: Callable[[int], None] | None = None,
) -> Packed:
    """Place them one after the other. `tell` is told how many more were looked at."""
    state = State()
    state.apply(TenantSet(0, Tenant(_TENANT)))
    for node in nodes:
        state.apply(NodeSet(0, node))
    if mix is not None:
        state.apply(MixSet(0, mix))
    ledger = state.ledger
    allocated = dropped = 0
    began = perf_counter()
    for number, request in enumerate(requests, 1):
        job = Job(JobId(str(number)), _TENANT, DEFAULT_PRIORITY, 0, request)
        found = place(ledger, class_of(job))
        if found is None:
            dropped += 1
        else:
            ledger.take(job, found)
            allocated += request.gpu_millis
        if tell is not None and number % _TELL_EVERY == 0:
            tell(_TELL_EVERY)
    seconds = perf_counter() - began
    return Packed(seed, len(requests), dropped, allocated, ledger.gpu_millis(), seconds)
