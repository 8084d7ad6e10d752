"""/api/v1/sizes: how many GPUs a model needs."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from tgpu.api.rest.context import caller_of, service_of
from tgpu.core.model.units import GPU
from tgpu.core.prediction.model_size import Size
from tgpu.wire.sizes_v1 import RunModel, SizeAnswer, SizeModel

router = APIRouter(tags=["sizes"])


@router.get("/api/v1/sizes")
async def size(
    request: Request, model: Annotated[str, Query(min_length=1, max_length=4096)]
) -> SizeAnswer:
    """GPUs that a model needs: from the table or its name, and from past runs, with the
    calculation."""
    service = service_of(request)
    found = service.sizes.look(model)
    runs = found.peaks.runs if found.peaks is not None else ()
    if caller_of(request).tenants is not None:
        runs = ()  # whose jobs those were is not everybody's business
    table = service.settings.size_table
    return SizeAnswer(
        model=model,
        gpu_memory_each_mb=found.gpu_mem_mib,
        size=_model(found.size),
        learned=None if found.learned is None else _model(found.learned),
        runs=found.peaks.count if found.peaks is not None else 0,
        peak_memory_mb=found.peaks.highest_mib if found.peaks is not None else None,
        last_runs=[
            RunModel(job_id=run.job_id, peak_memory_mb=run.peak_mib) for run in reversed(runs)
        ],
        table=None if table is None else str(table),
    )


def _model(size: Size) -> SizeModel:
    return SizeModel(
        gpu_count=size.requirement.gpu_millis / GPU,
        gpu_memory_mb=size.requirement.gpu_mem_mib,
        source=size.source,
        matched=size.matched,
        arithmetic=list(size.steps),
    )
