"""Computes the usage of a commit from its moves, in the one place that sees all moves."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from tgpu.core.accounting.meter import Meter, Owner, changed, owners
from tgpu.core.model.events import Event, JobChanged, JobMoved, JobsSubmitted, UsageAdded
from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job
from tgpu.core.model.lifecycle import PENDING, Progress
from tgpu.core.model.usage import NO_USAGE, total, usage_of
from tgpu.core.state.cluster_state import State, held_change


def usage_events(state: State, events: Sequence[Event]) -> list[UsageAdded]:
    """One event for each tenant and queue that used something, in the order of the moves."""
    latest: dict[JobId, Progress] = {}
    parts = []
    at = 0
    for event in events:
        if not isinstance(event, JobMoved):
            continue
        entry = state.entry(event.job_id)
        if entry is None:
            continue
        before = latest.get(event.job_id, entry.progress)
        latest[event.job_id] = event.progress
        used = usage_of(entry.job, before, event.progress, event.at)
        if used != NO_USAGE:
            at = max(at, event.at)
            parts.append((entry.job.tenant_id, entry.job.queue, used))
    return [
        UsageAdded(at, tenant_id, queue, used) for (tenant_id, queue), used in total(parts).items()
    ]


def meters_after(state: State, events: Sequence[Event]) -> dict[Owner, Meter]:
    """The meters that these events will change, as the state will have them."""
    latest: dict[JobId, Progress] = {}
    edited: dict[JobId, Job] = {}  # by an event of the same commit
    found: dict[Owner, Meter] = {}
    meters = state.meters
    for event in events:
        if isinstance(event, JobChanged):
            edited[event.job.job_id] = event.job
        if not isinstance(event, JobMoved):
            continue
        entry = state.entry(event.job_id)
        job = edited.get(event.job_id)
        if job is None:
            job = _new_job(events, event.job_id) if entry is None else entry.job
        if job is None:
            continue
        before = latest.get(event.job_id, PENDING if entry is None else entry.progress)
        by = held_change(job, before, event.progress)
        latest[event.job_id] = event.progress
        if not by:
            continue
        for owner in owners(job.tenant_id, job.options.user):
            meter = found.get(owner) or meters.by_owner.get(owner)
            found[owner] = changed(meter, by, event.at, meters.half_life_ms)
    return found


def _new_job(events: Sequence[Event], job_id: JobId) -> Job | None:
    """A job that comes in with the very commit that moves it: what was adopted runs already."""
    submitted = (event.jobs for event in events if isinstance(event, JobsSubmitted))
    return next((job for jobs in submitted for job in jobs if job.job_id == job_id), None)


METER: Final = "meter"  # documents: a meter's average and instant


def meter_documents(state: State, events: Sequence[Event]) -> dict[tuple[str, str], bytes]:
    """To be recorded with the events, so that a restart forgets nobody's use and no move counts
    twice."""
    return {
        (METER, json.dumps(owner)): json.dumps([meter.average, meter.at]).encode()
        for owner, meter in meters_after(state, events).items()
    }


def read_meters(documents: Mapping[str, bytes]) -> dict[Owner, tuple[int, int]]:
    """What `meter_documents` wrote."""
    found: dict[Owner, tuple[int, int]] = {}
    for name, content in documents.items():
        tenant_id, user = json.loads(name)
        average, at = json.loads(content)
        found[TenantId(tenant_id), user] = (average, at)
    return found
