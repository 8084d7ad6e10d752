"""From the rows of a file to jobs of a cluster: gangs, partitions, and what can never run."""

from enum import StrEnum
from math import gcd

from tgpu.core.model.ids import DEFAULT_QUEUE, DEFAULT_TENANT, JobId, TenantId
from tgpu.core.model.job import (
    ANYWHERE,
    DEFAULT_PRIORITY,
    Job,
    Options,
    Request,
    Where,
    class_of,
)
from tgpu.core.model.units import GPU
from tgpu.core.placement.place import could_ever_hold
from tgpu.simulate.problems import InputProblem
from tgpu.simulate.rows import TraceRow, TraceRows
from tgpu.simulate.world import ONE_POOL, Arrival, Cluster
from tgpu.text.plurals import plural


class SimulatedLimits(StrEnum):
    """The time limits that jobs have in the simulation."""

    GIVEN = "given"  # those of the file
    NONE = "none"
    TRUE = "true"  # how long each really runs: what a scheduler would do that knew the future


class Jobs:
    """The jobs of a trace on a cluster; `problems` are those that cannot be."""

    def __init__(
        self, rows: TraceRows, cluster: Cluster, limits: SimulatedLimits = SimulatedLimits.GIVEN
    ) -> None:
        self.arrivals: list[Arrival] = []
        self.problems: list[InputProblem] = list(rows.problems)
        self._cluster = cluster
        self._limits = limits
        self._is_one_pool = set(cluster.partitions) == {ONE_POOL}
        self._largest = {
            name: max((len(node.gpus) for node in nodes), default=0)
            for name, nodes in cluster.partitions.items()
        }
        # Jobs that are alike share one object: it is how the core knows them to be.
        self._requests: dict[tuple[object, ...], Request] = {}
        self._options: dict[tuple[int | None, str], Options] = {}
        self._fits: dict[tuple[str, Request], bool] = {}
        digits = max((len(row.job_id) for row in rows.jobs if row.job_id.isdecimal()), default=0)
        for row in rows.jobs:
            self._add(row, digits)

    def _add(self, row: TraceRow, digits: int) -> None:
        partition = ONE_POOL if self._is_one_pool else row.partition
        if partition not in self._cluster.partitions:
            known = ", ".join(sorted(self._cluster.partitions)[:8])
            text = f"{row.partition!r} is not a partition of the cluster; there are: {known}"
            self.problems.append(InputProblem(row.line, "partition", text, "unknown partition"))
            return
        job = self._job(row, partition, digits)
        if not self._could_run(job, partition):
            gpus = f"{row.gpu_millis / GPU:g}"
            where = f"the cluster{_of(partition)}, even if it were empty"
            text = f"{plural(gpus, 'GPU')} never fit onto {where}"
            self.problems.append(InputProblem(row.line, "gpus", text, "larger than the cluster"))
            return
        self.arrivals.append(Arrival(job, row.run_ms, partition))

    def _job(self, row: TraceRow, partition: str, digits: int) -> Job:
        limit = row.time_limit_ms
        if self._limits is SimulatedLimits.NONE:
            limit = None
        elif self._limits is SimulatedLimits.TRUE:
            limit = max(1, row.run_ms)
        options = self._options.get((limit, row.user))
        if options is None:
            options = Options(time_limit_ms=limit, user=row.user)
            self._options[limit, row.user] = options
        return Job(
            # Numbers are compared as numbers: the order of ids tells who came first in a second.
            JobId(row.job_id.zfill(digits) if row.job_id.isdecimal() else row.job_id),
            TenantId(row.tenant or row.partition or DEFAULT_TENANT),
            DEFAULT_PRIORITY if row.priority is None else row.priority,
            row.submit_ms,
            self._request(row, partition),
            row.queue or DEFAULT_QUEUE,
            options,
        )

    def _request(self, row: TraceRow, partition: str) -> Request:
        workers = row.workers or _workers(row.gpu_millis, self._largest[partition])
        key = (row.gpu_millis, workers, row.gpu_types, row.cpu_millis, row.mem_mib)
        request = self._requests.get(key)
        if request is None:
            request = self._requests[key] = Request(
                row.gpu_millis,
                cpu_millis=-(-row.cpu_millis // workers) * workers,
                mem_mib=-(-row.mem_mib // workers) * workers,
                workers=workers,
                where=Where(gpu_types=row.gpu_types) if row.gpu_types else ANYWHERE,
            )
        return request

    def _could_run(self, job: Job, partition: str) -> bool:
        key = (partition, job.request)
        known = self._fits.get(key)
        if known is None:
            is_even = not job.request.gpu_millis % job.request.workers
            known = is_even and could_ever_hold(self._cluster.partitions[partition], class_of(job))
            self._fits[key] = known
        return known


def _of(partition: str) -> str:
    return f" of partition {partition}" if partition else ""


def _workers(gpu_millis: int, largest: int) -> int:
    """A job larger than a node is a gang, of the largest workers that fill nodes without a rest."""
    gpus, rest = divmod(gpu_millis, GPU)
    if gpu_millis <= largest * GPU or rest or not largest:
        return 1
    return gpus // gcd(gpus, largest)
