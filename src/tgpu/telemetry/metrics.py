"""The Prometheus metrics, computed from the counts and the state at each scrape.

The rule for labels: their values are states, tenants, nodes, GPUs and their types, never anything
that grows with the jobs (ids, users, paths). Buckets multiply what a histogram is labelled with, so
none carries a tenant; of tenants beyond the first `MAX_TENANTS` only the sum is shown.
"""

import platform
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from prometheus_client import GCCollector, ProcessCollector
from prometheus_client.core import InfoMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from tgpu import __version__
from tgpu.core.accounting.sla import Promise
from tgpu.core.hardware.slowness import HARMFUL_THROTTLES
from tgpu.core.model.cause import Fault
from tgpu.core.model.ids import TenantId
from tgpu.core.model.lifecycle import TERMINAL, JobState
from tgpu.core.model.units import GPU, SECOND
from tgpu.devices.api import GpuReading
from tgpu.service.reads.values import NodeAllocation
from tgpu.telemetry.counts import WITHIN, Counts
from tgpu.telemetry.families import Labels, counter, gauge, histogram

MAX_TENANTS: Final = 500
OTHER_TENANTS: Final = "other tenants"  # no tenant is named so: names have no spaces

_MIB: Final = 1024 * 1024
_GPU_LABELS: Final = ("node", "gpu", "gpu_type")


def make_registry(counts: Counts) -> CollectorRegistry:
    """All there is to scrape: ours, and what the process and its memory are doing."""
    # Described, so that a scrape may ask for some of them by name.
    registry = CollectorRegistry(auto_describe=True)
    registry.register(Metrics(counts))
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class Metrics(Collector):
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        yield from self._jobs()
        yield from self._tenants()
        yield from self._gpus()
        yield from self._cycles()
        yield from self._journal()
        yield from self._service()

    def _jobs(self) -> Iterator[Metric]:
        counts = self._counts
        yield counter(
            "jobs",
            "Jobs that entered each state since the service started.",
            {(state.value,): counts.entered[state] for state in JobState},
            ("state",),
        )
        yield gauge(
            "current_jobs",
            "Jobs that have not ended, by state.",
            {
                (state.value,): count
                for state, count in counts.reads.job_counts().items()
                if state not in TERMINAL
            },
            ("state",),
        )
        yield gauge(
            "queue_size",
            "Jobs without GPUs: waiting, held, backing off or with open dependencies.",
            self._summed((tenant_id, waiting) for tenant_id, waiting in self._waiting().items()),
            ("tenant",),
        )
        yield counter(
            "preemptions",
            "Jobs preempted since the service started.",
            {(): counts.preemptions},
        )
        yield counter(
            "failed_attempts",
            "Failed attempts, by kind of failure.",
            {(fault.value,): counts.failures[fault] for fault in Fault},
            ("failure",),
        )
        yield counter(
            "missed_promises",
            "Jobs that ended after their deadline, or first started after their queue's wait "
            "target.",
            {(promise.value,): counts.broken[promise] for promise in Promise},
            ("promise",),
        )
        yield counter(
            "estimated_starts",
            "Jobs that waited with a start estimate, by whether they started within it.",
            {(within,): counts.estimated[within] for within in WITHIN},
            ("within",),
        )
        yield histogram(
            "start_estimate_error_seconds",
            "Absolute difference between the p50 of a job's first estimate and its start.",
            {(): counts.estimate_errors},
        )
        yield histogram(
            "job_wait_seconds",
            "Time from submission to the first start of a job.",
            {(): counts.waits},
        )
        yield histogram(
            "job_run_seconds",
            "Run time of the last attempt of a job, by how the job ended.",
            {(state.value,): tally for state, tally in counts.runs.items()},
            ("state",),
        )

    def _waiting(self) -> dict[TenantId, int]:
        # Every cycle goes through the classes too, and does more for each.
        reads = self._counts.reads
        waiting = {held.tenant.tenant_id: -held.jobs for held in reads.tenant_allocations()}
        for job_class, jobs in reads.class_counts():
            waiting[job_class.tenant_id] += jobs
        return waiting

    def _tenants(self) -> Iterator[Metric]:
        reads, counts = self._counts.reads, self._counts
        uses = {held.tenant.tenant_id: held for held in reads.tenant_allocations()}
        quotas = {i: use.tenant for i, use in uses.items() if use.tenant.enforce_quota}
        yield gauge(
            "tenant_gpus",
            "GPUs in use by the jobs of a tenant.",
            self._summed((i, use.gpu_millis / GPU) for i, use in uses.items()),
            ("tenant",),
        )
        yield gauge(
            "tenant_gpus_quota",
            "GPU limit of a tenant; absent without a limit.",
            self._named(
                ((i,), tenant.max_gpu_millis / GPU)
                for i, tenant in quotas.items()
                if tenant.max_gpu_millis is not None
            ),
            ("tenant",),
        )
        yield gauge(
            "tenant_type_gpus",
            "GPUs of a type in use by the jobs of a tenant.",
            self._named(
                ((i, gpu_type), millis / GPU)
                for i, use in uses.items()
                for gpu_type, millis in use.gpu_millis_by_type.items()
            ),
            ("tenant", "gpu_type"),
        )
        yield gauge(
            "tenant_type_gpus_quota",
            "Limit of GPUs of a type of a tenant; absent without a limit.",
            self._named(
                ((i, gpu_type), millis / GPU)
                for i, tenant in quotas.items()
                for gpu_type, millis in tenant.max_gpu_millis_by_type
            ),
            ("tenant", "gpu_type"),
        )
        yield gauge(
            "tenant_running_jobs",
            "Running jobs of a tenant.",
            self._summed((i, use.jobs) for i, use in uses.items()),
            ("tenant",),
        )
        yield gauge(
            "tenant_running_jobs_quota",
            "Limit of running jobs of a tenant; absent without a limit.",
            self._named(
                ((i,), tenant.max_running_jobs)
                for i, tenant in quotas.items()
                if tenant.max_running_jobs is not None
            ),
            ("tenant",),
        )
        yield counter(
            "tenant_gpu_seconds",
            "GPU time of finished attempts, over all time.",
            self._summed(
                (i, used.gpu_millis_ms / (GPU * SECOND))
                for (i, _), used in reads.usage_by_queue().items()
            ),
            ("tenant",),
        )
        yield from self._budgets()
        yield gauge(
            "tenant_borrowed_gpus",
            "GPUs that a tenant has borrowed from its cohort.",
            self._summed((i, use.borrowed_millis / GPU) for i, use in uses.items()),
            ("tenant",),
        )
        waits = SummaryMetricFamily(
            "gpu_scheduler_tenant_wait_seconds",
            "Time from submission to the first start, by tenant.",
            labels=("tenant",),
        )
        sums = self._summed((i, tally.sum) for i, tally in counts.waits_of.items())
        starts = self._summed((i, tally.count) for i, tally in counts.waits_of.items())
        for labels, value in sums.items():
            waits.add_metric(labels, count_value=int(starts[labels]), sum_value=value)
        yield waits

    def _budgets(self) -> Iterator[Metric]:
        reads = self._counts.reads
        budgets = [(t.tenant_id, t.budget) for t in reads.budgeted() if t.budget]
        yield gauge(
            "tenant_budget_gpu_seconds",
            "GPU time of a tenant's budget per window; absent without a budget.",
            self._named(((i,), budget.gpu_millis_ms / (GPU * SECOND)) for i, budget in budgets),
            ("tenant",),
        )
        yield gauge(
            "tenant_budget_spent_gpu_seconds",
            "GPU time that a tenant has used in the current window of its budget.",
            self._named(
                (
                    (i,),
                    reads.spend(i).upto(reads.now).spent(budget.window) / (GPU * SECOND),
                )
                for i, budget in budgets
            ),
            ("tenant",),
        )
        yield counter(
            "tenant_budget_notices",
            "Times that a tenant reached 80 and 100 percent of its budget.",
            self._named(
                ((i, str(percent)), times)
                for (i, percent), times in self._counts.budgets_reached.items()
            ),
            ("tenant", "percent"),
        )

    def _summed(self, amounts: Iterable[tuple[TenantId, float]]) -> dict[Labels, float]:
        """By tenant; those that are not shown by name together."""
        shown = self._shown()
        sums: dict[Labels, float] = {}
        for tenant_id, amount in amounts:
            key = (str(tenant_id) if tenant_id in shown else OTHER_TENANTS,)
            sums[key] = sums.get(key, 0) + amount
        return sums

    def _named(
        self, amounts: Iterable[tuple[tuple[TenantId, *Labels], float]]
    ) -> dict[Labels, float]:
        """Of tenants shown by name: limits of different ones have no sum that means much."""
        shown = self._shown()
        return {labels: amount for labels, amount in amounts if labels[0] in shown}

    def _shown(self) -> set[TenantId]:
        return set(islice(self._counts.reads.tenant_ids, MAX_TENANTS))

    def _gpus(self) -> Iterator[Metric]:
        readings = list(self._readings())
        for name, help_text, values in (
            (
                "gpu_utilization",
                "Utilization of the GPU, 0 to 1; absent if not reported.",
                {labels: _part(reading.utilisation_percent, 100) for labels, reading in readings},
            ),
            (
                "gpu_temperature_celsius",
                "Temperature of the GPU.",
                {labels: reading.temperature_c for labels, reading in readings},
            ),
            (
                "gpu_memory_bytes",
                "Memory of the GPU.",
                {labels: reading.memory_mib * _MIB for labels, reading in readings},
            ),
            (
                "gpu_memory_used_bytes",
                "Memory of the GPU in use, by any process.",
                {labels: _times(reading.memory_used_mib, _MIB) for labels, reading in readings},
            ),
            (
                "gpu_sm_clock_hertz",
                "SM clock of the GPU; absent if not reported.",
                {labels: _times(reading.sm_clock_mhz, 1_000_000) for labels, reading in readings},
            ),
        ):
            known = {labels: value for labels, value in values.items() if value is not None}
            yield gauge(name, help_text, known, _GPU_LABELS)
        yield gauge(
            "gpu_throttled",
            "Whether the driver slows the GPU down for heat, power or a fault.",
            {
                labels: float(any(reason in HARMFUL_THROTTLES for reason in reading.throttle))
                for labels, reading in readings
            },
            _GPU_LABELS,
        )
        yield counter(
            "gpu_xid_errors",
            "Xid errors of the GPU since the service started.",
            {labels: reading.xid_count for labels, reading in readings},
            _GPU_LABELS,
        )
        yield from self._books_of_gpus()
        yield gauge(
            "driver_problem",
            "Whether the GPU driver of a node does not work.",
            {
                (node_id,): float(snapshot.problem is not None)
                for node_id, snapshot in self._counts.snapshots.items()
            },
            ("node",),
        )

    def _books_of_gpus(self) -> Iterator[Metric]:
        gpus = [
            (_labels(use, gpu.index, gpu.gpu_type), use, gpu)
            for use in self._counts.reads.node_allocations()
            for gpu in use.node.gpus
        ]
        yield gauge(
            "gpu_allocated",
            "Share of the GPU allocated to jobs, 0 to 1.",
            {labels: use.taken_millis(gpu) / GPU for labels, use, gpu in gpus},
            _GPU_LABELS,
        )
        yield gauge(
            "gpu_paused",
            "Whether an operator paused the GPU.",
            {labels: float(gpu.paused is not None) for labels, _, gpu in gpus},
            _GPU_LABELS,
        )
        yield gauge(
            "gpu_foreign",
            "Whether other programs keep the GPU from taking jobs.",
            {labels: float(gpu.foreign is not None) for labels, _, gpu in gpus},
            _GPU_LABELS,
        )
        yield gauge(
            "gpu_problem",
            "Whether a hardware problem keeps the GPU from taking jobs.",
            {labels: float(gpu.problem is not None) for labels, _, gpu in gpus},
            _GPU_LABELS,
        )

    def _readings(self) -> Iterator[tuple[Labels, GpuReading]]:
        for node_id, snapshot in self._counts.snapshots.items():
            for reading in snapshot.gpus:
                yield (node_id, str(reading.index), reading.gpu_type), reading

    def _cycles(self) -> Iterator[Metric]:
        counts = self._counts
        yield histogram(
            "scheduling_latency",
            "Seconds per scheduling cycle.",
            {(): counts.cycles},
        )
        yield counter("cycles", "Scheduling cycles on record.", {(): counts.cycles.count})
        yield counter("starts", "Attempts that cycles started.", {(): counts.starts})
        yield gauge(
            "seconds_since_last_full_cycle",
            "Time since the last completed cycle.",
            {(): counts.seconds_since_cycle()},
        )

    def _journal(self) -> Iterator[Metric]:
        counts = self._counts
        yield histogram("commit_seconds", "Time the store took for a commit.", {(): counts.commits})
        yield counter("commits", "Commits to the store.", {(): counts.commits.count})
        yield counter("events", "Events recorded by those commits.", {(): counts.events})
        yield counter("commit_failures", "Failed commits.", {(): counts.commit_failures})
        yield counter(
            "clock_steps", "Detected steps of the machine's clock.", {(): counts.clock_steps}
        )

    def _service(self) -> Iterator[Metric]:
        yield gauge(
            "breaker_open",
            "1 while the circuit breaker of the driver or the store is open.",
            {(of,): not state.is_well for of, state in self._counts.breakers.items()},
            ("of",),
        )
        yield gauge(
            "uptime_seconds",
            "Time since the service started.",
            {(): self._counts.uptime_seconds()},
        )
        yield InfoMetricFamily(
            "gpu_scheduler_build",
            "Version of the service and of Python.",
            {"version": __version__, "python": platform.python_version()},
        )


def _labels(use: NodeAllocation, index: int, gpu_type: str) -> Labels:
    return (use.node.node_id, str(index), gpu_type)


def _part(value: int | None, whole: int) -> float | None:
    return None if value is None else value / whole


def _times(value: int | None, factor: int) -> int | None:
    return None if value is None else value * factor
