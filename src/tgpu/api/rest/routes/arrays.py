"""/api/v1/arrays: whole arrays and sweeps, over or not."""

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request

from tgpu.api.access.visible import newest_of, visible_query
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.parameters import Name
from tgpu.api.translate.array_tally import ArrayTally
from tgpu.core.errors import NotFound
from tgpu.core.model.lifecycle import TERMINAL, JobState
from tgpu.service.identity.caller import Principal
from tgpu.service.service import Service
from tgpu.store.api import JobQuery, StoredJob
from tgpu.wire.arrays_v1 import ArraySummary

router = APIRouter(prefix="/api/v1/arrays", tags=["jobs"])
_PAGE = 1_000
_LIVE = tuple(state for state in JobState if state not in TERMINAL)


@router.get("/{array}")
async def get_array(request: Request, array: Name) -> ArraySummary:
    """Progress of an array or sweep: counts by state, exit codes, failures, usage."""
    service, caller = service_of(request), caller_of(request)
    array_id = await newest_of(service, caller) if array == "last" else array
    return await _summary(service, caller, array_id)


@router.get("/{array}/wait")
async def wait(
    request: Request,
    array: Name,
    seconds: Annotated[float, Query(alias="timeout", ge=0, le=60)] = 20,
) -> ArraySummary:
    """The array when all of it has ended, or its state after `timeout` seconds."""
    service, caller = service_of(request), caller_of(request)
    array_id = await newest_of(service, caller) if array == "last" else array
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not service.is_ending:
        live = await _page(service, caller, array_id, limit=1, states=_LIVE)
        if not live:
            break
        await service.wait_until_over(live[0].job.job_id, left)
    return await _summary(service, caller, array_id)


async def _summary(service: Service, caller: Principal, array_id: str) -> ArraySummary:
    tally = ArrayTally(service.clock.now())
    before: int | None = None
    while page := await _page(service, caller, array_id, limit=_PAGE, before=before):
        for stored in page:
            tally.add(stored)
        before = page[-1].number
    if not tally.total:
        raise NotFound("array", array_id, "`tgpu list --all` shows all jobs")
    return tally.summary(array_id, service.settings.cost_per_gpu_hour)


async def _page(
    service: Service,
    caller: Principal,
    array_id: str,
    *,
    limit: int,
    states: tuple[JobState, ...] = (),
    before: int | None = None,
) -> list[StoredJob]:
    query = JobQuery(array_id=array_id, states=states, before=before, limit=limit)
    return await service.store.jobs(visible_query(service, caller, query))
