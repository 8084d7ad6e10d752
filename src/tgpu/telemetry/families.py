"""Metric families with our prefix, made of plain mappings from label values to amounts."""

from collections.abc import Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tgpu.telemetry.counts import HistogramTally

# The first two are for those who have figures of their own: the library's name stays in here.
__all__ = ["Collector", "Labels", "Metric", "counter", "gauge", "histogram"]

PREFIX = "gpu_scheduler_"

Labels = tuple[str, ...]


def gauge(
    name: str, help_text: str, values: Mapping[Labels, float], labels: Labels = ()
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(PREFIX + name, help_text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def counter(
    name: str, help_text: str, values: Mapping[Labels, float], labels: Labels = ()
) -> CounterMetricFamily:
    """Exposed with `_total` behind the name."""
    family = CounterMetricFamily(PREFIX + name, help_text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def histogram(
    name: str, help_text: str, values: Mapping[Labels, HistogramTally], labels: Labels = ()
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(PREFIX + name, help_text, labels=labels)
    for key, tally in values.items():
        family.add_metric(key, tally.buckets(), tally.sum)
    return family
