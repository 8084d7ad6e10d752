"""One log line for each step of a job, written once the step is on record."""

import logging
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import structlog

from tgpu.core.accounting.sla import Promise
from tgpu.core.model.events import Event, JobChanged, JobMoved, JobsSubmitted, NodeSet
from tgpu.core.model.lifecycle import TERMINAL, Move, Progress
from tgpu.core.model.units import GPU, SECOND
from tgpu.service.reads.cluster_reads import ClusterReads
from tgpu.service.reads.values import LiveJob
from tgpu.service.recording.observer import Observer
from tgpu.store.api import DecisionId
from tgpu.telemetry.promises import broken_promise
from tgpu.text.gpu_names import gpu_name

_NAME: Final = "gpu_scheduler.jobs"
_log = structlog.get_logger(_NAME)
_levels = logging.getLogger(_NAME)

_MESSAGES: Final = {
    Move.START: "job started",
    Move.RUN: "job running",
    Move.COMPLETE: "job ended",
    Move.FAIL: "job ended",
    Move.CANCEL: "job ended",
    Move.REQUEUE: "job requeued",
    Move.PREEMPT: "job preempted",
    Move.STOP: "job stopping",
    Move.NOMINATE: "job gets the GPUs of preempted jobs",
    Move.CHECKPOINT: "job marked a checkpoint",
    Move.NOTE: "job noted",
    Move.HOLD: "job held",
    Move.RELEASE: "job released",
    Move.PAUSE: "job paused",
    Move.RESUME: "job resumed",
}


_BROKEN: Final = {
    Promise.DEADLINE: "job missed its deadline",
    Promise.WAIT_TARGET: "job missed the wait target of its queue",
}


class JobLog(Observer):
    def __init__(self) -> None:
        self._reads = ClusterReads()

    def opening(self, reads: ClusterReads) -> None:
        self._reads = reads

    def committed(
        self,
        events: Sequence[Event],
        causes: Sequence[str | None],
        seconds: float,
        decisions: Sequence[DecisionId] = (),
    ) -> None:
        if not _levels.isEnabledFor(logging.INFO):
            return
        for event, cause, decision in zip_longest(events, causes, decisions):
            origin = _origin(cause, decision)
            match event:
                case JobMoved():
                    self._moved(event, origin)
                case JobsSubmitted():
                    self._submitted(event, origin)
                case NodeSet():
                    self._gpus_changed(event, origin)
                case JobChanged(_, job):
                    fields = {"job_id": job.job_id, "tenant": job.tenant_id}
                    fields |= {"changes": event.changes_text()} if event.changes else {}
                    _log.info("job changed", **fields, priority=job.priority, **origin)

    def _submitted(self, event: JobsSubmitted, origin: Mapping[str, Any]) -> None:
        message = "job submitted" if len(event.jobs) == 1 else "jobs submitted"
        _log.info(message, **submitted_fields(event), **origin)

    def _moved(self, event: JobMoved, origin: Mapping[str, Any]) -> None:
        live = self._reads.job(event.job_id)
        if live is None:
            return
        # That the engine confirmed a start is the one step that nobody misses.
        level = logging.DEBUG if event.move is Move.RUN else logging.INFO
        if _levels.isEnabledFor(level):
            _log.log(level, _MESSAGES[event.move], **moved_fields(live, event), **origin)
        promise = broken_promise(self._reads, event)
        if promise is not None:
            _log.warning(_BROKEN[promise], **missed_fields(live, event), **origin)

    def _gpus_changed(self, event: NodeSet, origin: Mapping[str, Any]) -> None:
        known = self._reads.known_node(event.node.node_id)
        before = {} if known is None else {gpu.uuid: gpu for gpu in known.gpus}
        for gpu in event.node.gpus:
            old = before.get(gpu.uuid)
            fields = {"node": event.node.node_id, "gpu": gpu.index, **origin}
            if gpu.problem != (None if old is None else old.problem):
                if gpu.problem is None:
                    _log.info("GPU is healthy again", **fields)
                else:
                    _log.warning("GPU has a problem", **fields, problem=gpu.problem)
            if gpu.foreign != (None if old is None else old.foreign):
                if gpu.foreign is None:
                    _log.info("GPU is no longer used by other programs", **fields)
                else:
                    _log.warning("GPU is used by other programs", **fields, foreign=gpu.foreign)
            if old is not None and gpu.paused != old.paused:
                if gpu.paused is None:
                    _log.info("GPU takes jobs again", **fields)
                else:
                    _log.info("GPU paused", **fields, reason=gpu.paused)


def submitted_fields(event: JobsSubmitted) -> dict[str, Any]:
    jobs = event.jobs
    if len(jobs) == 1:
        (job,) = jobs
        return {
            "job_id": job.job_id,
            "tenant": job.tenant_id,
            "queue": job.queue,
            "priority": job.priority,
            "required_gpus": job.request.gpu_millis / GPU,
        }
    tenants = {job.tenant_id for job in jobs}
    whose = {"tenant": jobs[0].tenant_id} if len(tenants) == 1 else {"tenants": len(tenants)}
    return {
        "count": len(jobs),
        "first_job_id": jobs[0].job_id,
        "last_job_id": jobs[-1].job_id,
        **whose,
    }


def moved_fields(live: LiveJob, event: JobMoved) -> dict[str, Any]:
    """Who and which attempt, then what there is to say of this step."""
    job, progress = live.job, event.progress
    fields: dict[str, Any] = {
        "job_id": job.job_id,
        "tenant": job.tenant_id,
        "attempt": progress.attempt,
    }
    if event.move is Move.START and progress.placement is not None:
        fields["node"] = progress.placement.node_id
        fields["gpu_type"] = progress.placement.gpu_type
        fields["gpu_ids"] = progress.placement.first_indexes()
        fields["gpu_names"] = [gpu_name(*gpu) for gpu in progress.placement.gpus()]
        fields["required_gpus"] = job.request.gpu_millis / GPU
        fields["waited_seconds"] = max(0, event.at - job.submitted_at) / SECOND
    elif event.move is Move.RUN:
        fields["pid"] = progress.pid
    elif progress.state in TERMINAL:
        fields |= _ending(progress)
    elif progress.cause is not None:
        fields["cause"] = progress.cause
    return fields


def missed_fields(live: LiveJob, event: JobMoved) -> dict[str, Any]:
    job = live.job
    fields: dict[str, Any] = {"job_id": job.job_id, "tenant": job.tenant_id, "queue": job.queue}
    deadline_at = job.options.deadline_at
    if event.move is Move.START:
        fields["waited_seconds"] = max(0, event.at - job.submitted_at) / SECOND
    elif deadline_at is not None:
        fields["late_seconds"] = max(0, event.at - deadline_at) / SECOND
    return fields


def _ending(progress: Progress) -> dict[str, Any]:
    found: dict[str, Any] = {
        "state": progress.state.value,
        "exit_code": progress.exit_code,
        "signal": progress.signal,
        "cause": progress.cause,
        "failure": None if progress.fault is None else progress.fault.value,
    }
    if progress.started_at is not None and progress.ended_at is not None:
        found["ran_seconds"] = max(0, progress.ended_at - progress.started_at) / SECOND
    return {
        name: value for name, value in found.items() if value is not None or name == "exit_code"
    }


def _origin(cause: str | None, decision: DecisionId | None) -> dict[str, Any]:
    """What leads from a line to the request behind it, and to the decision in the journal."""
    found: dict[str, Any] = {} if cause is None else {"request_id": cause}
    return found if decision is None else found | {"decision": decision.number}
