"""What a scrape shows of the counts and the state."""

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.builders import a_gpu, a_job, a_node, a_state, a_tenant, start
from tgpu.core.model.events import TimePassed, UsageAdded
from tgpu.core.model.ids import NodeId, TenantId
from tgpu.core.model.tenant import Budget, Window
from tgpu.core.model.usage import GpuTimeUsage
from tgpu.core.state.cluster_state import State
from tgpu.devices.api import GpuReading, Snapshot
from tgpu.service.reads.cluster_reads import ClusterReads
from tgpu.telemetry import metrics
from tgpu.telemetry.counts import Counts
from tgpu.telemetry.metrics import OTHER_TENANTS, make_registry

SEEDED = {
    "gpu_scheduler_jobs_total": "counter",
    "gpu_scheduler_queue_size": "gauge",
    "gpu_scheduler_gpu_utilization": "gauge",
    "gpu_scheduler_scheduling_latency": "histogram",
    "gpu_scheduler_preemptions_total": "counter",
    "gpu_scheduler_missed_promises_total": "counter",
    "gpu_scheduler_estimated_starts_total": "counter",
    "gpu_scheduler_start_estimate_error_seconds": "histogram",
}


def text_of(counts: Counts) -> str:
    return generate_latest(make_registry(counts)).decode()


def samples(counts: Counts, name: str) -> dict[tuple[str, ...], float]:
    """Values of a metric by the values of its labels, in the order of their names."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text_of(counts))
        for sample in family.samples
        if sample.name == f"gpu_scheduler_{name}"
    }


class Watching(Counts):
    """Counts of a service with this state."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state
        self.opening(ClusterReads(state))


def watching(*jobs, **world) -> Watching:
    return Watching(a_state(*jobs, **world))


@pytest.mark.parametrize(("name", "kind"), SEEDED.items())
def test_the_promised_metrics_have_exactly_these_names(name, kind):
    assert f"# TYPE {name} {kind}\n" in text_of(Counts())


def test_every_metric_is_there_before_the_service_has_opened():
    before = {line for line in text_of(Counts()).splitlines() if line.startswith("# TYPE")}
    after = {line for line in text_of(watching(a_job())).splitlines() if line.startswith("# TYPE")}
    assert before == after


def test_the_queue_is_what_has_no_gpus_by_tenant():
    counts = watching(
        a_job("a", tenant="t1"),
        a_job("b", tenant="t1", after=("a",)),
        a_job("c", tenant="t1"),
        tenants=[a_tenant("t1"), a_tenant("t2")],
    )
    start(counts.state, "a", 0)
    assert samples(counts, "queue_size") == {("t1",): 2, ("t2",): 0}


def test_current_jobs_are_those_that_are_not_over():
    counts = watching(a_job("a"), a_job("b"))
    start(counts.state, "a", 0)
    assert samples(counts, "current_jobs") == {
        ("pending",): 1,
        ("scheduled",): 1,
        ("running",): 0,
        ("preempted",): 0,
    }


def test_a_tenant_shows_what_it_has_and_what_it_may_have():
    tenant = a_tenant("t1", gpus=4, by_type={"A100": 2}, max_running_jobs=3)
    counts = watching(a_job("a", tenant="t1", gpus=2), tenants=[tenant])
    start(counts.state, "a", 0, 1)
    assert samples(counts, "tenant_gpus") == {("t1",): 2}
    assert samples(counts, "tenant_gpus_quota") == {("t1",): 4}
    assert samples(counts, "tenant_type_gpus") == {("A100", "t1"): 2}
    assert samples(counts, "tenant_type_gpus_quota") == {("A100", "t1"): 2}
    assert samples(counts, "tenant_running_jobs") == {("t1",): 1}
    assert samples(counts, "tenant_running_jobs_quota") == {("t1",): 3}


def test_a_limit_that_is_not_set_is_not_shown():
    counts = watching(tenants=[a_tenant("t1")])
    assert samples(counts, "tenant_gpus_quota") == {}
    assert samples(counts, "tenant_running_jobs_quota") == {}


def test_the_gpu_time_of_a_tenant_is_summed_over_its_queues():
    counts = watching(tenants=[a_tenant("t1")])
    for queue in ("default", "night"):
        counts.state.apply(UsageAdded(0, a_tenant("t1").tenant_id, queue, GpuTimeUsage(3_000_000)))
    assert samples(counts, "tenant_gpu_seconds_total") == {("t1",): 6}


def test_tenants_beyond_the_limit_are_shown_as_one(monkeypatch):
    monkeypatch.setattr(metrics, "MAX_TENANTS", 2)
    jobs = [a_job(f"j{number}", tenant=f"t{number}") for number in range(4)]
    tenants = [a_tenant(f"t{number}", gpus=number) for number in range(4)]
    counts = watching(*jobs, tenants=tenants)
    assert samples(counts, "queue_size") == {("t0",): 1, ("t1",): 1, (OTHER_TENANTS,): 2}
    assert samples(counts, "tenant_gpus_quota") == {("t0",): 0, ("t1",): 1}


def test_a_gpu_shows_what_its_driver_reports():
    counts = watching()
    reading = GpuReading(
        1, "GPU-1", "NVIDIA A100", "A100", 1024, 512, temperature_c=61, utilisation_percent=25
    )
    counts.measured(NodeId("n0"), Snapshot("nvml", (reading,)))
    gpu = ("1", "A100", "n0")
    assert samples(counts, "gpu_utilization") == {gpu: 0.25}
    assert samples(counts, "gpu_temperature_celsius") == {gpu: 61}
    assert samples(counts, "gpu_memory_bytes") == {gpu: 2**30}
    assert samples(counts, "gpu_memory_used_bytes") == {gpu: 2**29}
    assert samples(counts, "driver_problem") == {("n0",): 0}


def test_what_the_driver_does_not_tell_is_absent_and_not_zero():
    counts = watching()
    counts.measured(NodeId("n0"), Snapshot("nvml", (GpuReading(0, "G", "A", "A100", 1024),)))
    assert samples(counts, "gpu_utilization") == {}
    assert samples(counts, "gpu_temperature_celsius") == {}
    assert samples(counts, "gpu_memory_used_bytes") == {}


def test_a_driver_that_is_ill_is_shown():
    counts = watching()
    counts.measured(NodeId("n0"), Snapshot("nvml", (), problem="slow"))
    assert samples(counts, "driver_problem") == {("n0",): 1}


def test_the_books_of_gpus_are_shown():
    gpus = [a_gpu(0), a_gpu(1, paused="dust"), a_gpu(2, problem="lost")]
    counts = watching(a_job("a"), nodes=[a_node("n0", gpus)])
    start(counts.state, "a", 0)
    assert [*samples(counts, "gpu_allocated").values()] == [1, 0, 0]
    assert [*samples(counts, "gpu_paused").values()] == [0, 1, 0]
    assert [*samples(counts, "gpu_problem").values()] == [0, 0, 1]


def test_a_histogram_shows_buckets_sum_and_count():
    counts = Counts()
    counts.commits.add(0.002)
    assert samples(counts, "commit_seconds_count") == {(): 1}
    assert samples(counts, "commit_seconds_sum") == {(): 0.002}
    buckets = samples(counts, "commit_seconds_bucket")
    assert (buckets["0.001",], buckets["0.0025",], buckets["+Inf",]) == (0, 1, 1)


def test_a_scrape_may_ask_for_some_metrics_by_name():
    registry = make_registry(Counts())
    text = generate_latest(registry.restricted_registry(["gpu_scheduler_uptime_seconds"])).decode()
    assert "gpu_scheduler_uptime_seconds" in text
    assert "gpu_scheduler_cycles_total" not in text


def test_budgets_show_what_may_be_and_was_spent_and_who_heard_of_it():
    hour = 3_600_000
    budget = Budget(4 * 1000 * hour, Window.DAY)
    counts = watching(a_job("a"), tenants=[a_tenant(budget=budget), a_tenant("free")])
    start(counts.state, "a", 0)
    counts.state.apply(TimePassed(hour))
    counts.budget_reached(TenantId("default"), 80)
    assert samples(counts, "tenant_budget_gpu_seconds") == {("default",): 14_400}
    assert samples(counts, "tenant_budget_spent_gpu_seconds") == {("default",): 3600}
    assert samples(counts, "tenant_budget_notices_total") == {("80", "default"): 1}


def test_what_is_borrowed_is_shown():
    tenants = [a_tenant("red", 0, cohort="lab"), a_tenant("blue", 4, cohort="lab")]
    counts = watching(a_job("a", "red"), tenants=tenants)
    start(counts.state, "a", 0)
    assert samples(counts, "tenant_borrowed_gpus") == {("red",): 1, ("blue",): 0}
