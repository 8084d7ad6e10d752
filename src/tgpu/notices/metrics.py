"""Metrics of notices for Prometheus."""

from collections.abc import Iterator

from tgpu.notices.dispatch import Dispatch
from tgpu.telemetry.families import Collector, Metric, counter, gauge


class NoticeMetrics(Collector):
    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch

    def collect(self) -> Iterator[Metric]:
        deliveries = self._dispatch.deliveries
        yield counter(
            "notices",
            "Notices that were sent, or dropped because they were rejected or too old.",
            {
                (each.rule.name, outcome): count
                for each in deliveries
                for outcome, count in (("sent", each.sent), ("dropped", each.dropped))
            },
            ("notice", "outcome"),
        )
        yield counter(
            "notice_failed_tries",
            "Failed tries to send notices.",
            {(each.rule.name,): each.failed_tries for each in deliveries},
            ("notice",),
        )
        yield gauge(
            "notice_problem",
            "Whether the last try to send notices failed.",
            {(each.rule.name,): float(each.problem is not None) for each in deliveries},
            ("notice",),
        )
