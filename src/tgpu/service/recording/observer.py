"""The interface of observers of the service. They decide nothing."""

from collections.abc import Sequence

import structlog

from tgpu.breaker import BreakerState
from tgpu.core.model.events import Event
from tgpu.core.model.ids import NodeId, TenantId
from tgpu.core.model.plan import Plan
from tgpu.core.projection.estimate import Announced
from tgpu.devices.api import Snapshot
from tgpu.service.reads.cluster_reads import ClusterReads
from tgpu.store.api import DecisionId

_log = structlog.get_logger("gpu_scheduler.observers")


class Observer:
    """Does nothing: a watcher overrides what it wants to hear of.

    Called on the event loop between two steps of the service, so it must be quick and never wait.
    """

    def opening(self, reads: ClusterReads) -> None:
        """Of the state that will be loaded and kept up to date."""

    def committed(
        self,
        events: Sequence[Event],
        causes: Sequence[str | None],
        seconds: float,
        decisions: Sequence[DecisionId] = (),
    ) -> None:
        """These are durable and not applied yet: the state still shows what was before.

        `causes` are the ids of the requests behind the first events; `decisions` the decision that
        each event is part of; `seconds` took the store.
        """

    def commit_failed(self, problem: str) -> None:
        """The store refused a commit; nothing of it happened."""

    def breaker_changed(self, of: str, state: BreakerState) -> None:
        """The breaker around the "driver" or the "store" opened, tries, or closed."""

    def cycled(self, plan: Plan, seconds: float) -> None:
        """A cycle is over and its plan on record; `seconds` took the deciding."""

    def measured(self, node_id: NodeId, snapshot: Snapshot) -> None:
        """The GPUs of a node were read."""

    def budget_reached(self, tenant_id: TenantId, percent: int) -> None:
        """A tenant has spent so much of its budget; once a window for 80 and for 100."""

    def start_scored(self, told: Announced) -> None:
        """A job started that had been told when it would."""

    def clock_stepped(self, by: int) -> None:
        """The wall clock was set by so many milliseconds, and that is on record."""


class Observers(Observer):
    """Tells any number of them, and lets none harm what it watches: a bug there is only logged."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._observers = tuple(observers)

    def opening(self, reads: ClusterReads) -> None:
        for observer in self._observers:
            try:
                observer.opening(reads)
            except Exception:
                _complain(observer)

    def committed(
        self,
        events: Sequence[Event],
        causes: Sequence[str | None],
        seconds: float,
        decisions: Sequence[DecisionId] = (),
    ) -> None:
        for observer in self._observers:
            try:
                observer.committed(events, causes, seconds, decisions)
            except Exception:
                _complain(observer)

    def commit_failed(self, problem: str) -> None:
        for observer in self._observers:
            try:
                observer.commit_failed(problem)
            except Exception:
                _complain(observer)

    def breaker_changed(self, of: str, state: BreakerState) -> None:
        for observer in self._observers:
            try:
                observer.breaker_changed(of, state)
            except Exception:
                _complain(observer)

    def cycled(self, plan: Plan, seconds: float) -> None:
        for observer in self._observers:
            try:
                observer.cycled(plan, seconds)
            except Exception:
                _complain(observer)

    def measured(self, node_id: NodeId, snapshot: Snapshot) -> None:
        for observer in self._observers:
            try:
                observer.measured(node_id, snapshot)
            except Exception:
                _complain(observer)

    def budget_reached(self, tenant_id: TenantId, percent: int) -> None:
        for observer in self._observers:
            try:
                observer.budget_reached(tenant_id, percent)
            except Exception:
                _complain(observer)

    def start_scored(self, told: Announced) -> None:
        for observer in self._observers:
            try:
                observer.start_scored(told)
            except Exception:
                _complain(observer)

    def clock_stepped(self, by: int) -> None:
        for observer in self._observers:
            try:
                observer.clock_stepped(by)
            except Exception:
                _complain(observer)


def _complain(observer: Observer) -> None:
    _log.exception("an observer failed", observer=type(observer).__name__)
