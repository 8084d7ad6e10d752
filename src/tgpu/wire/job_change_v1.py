"""The fields of a waiting job that can be changed.

The same names, shapes and bounds as there; `tests/unit/wire/test_job_change.py` compares them.
"""

from typing import Annotated

from pydantic import AliasChoices, ConfigDict, FailFast, Field

from tgpu.wire.bounds import NO_NUL, WIDEST, Int, Labels, RequestModel, Text, Word
from tgpu.wire.v1 import AfterModel, GpuCount, GpuType, GpuWords, NodeNames


class JobChange(RequestModel):
    """Fields to change; the others stay. `null` removes an optional value."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"priority": 1000}, {"gpu_count": 1, "max_runtime": 7200, "after": []}]
        }
    )

    name: Text = ""
    queue: Annotated[str, Field(min_length=1, max_length=128, pattern=NO_NUL)] = "default"
    priority: Int | None = None
    workers: Annotated[int, Field(ge=1, le=10_000)] = 1
    gpu_count: GpuCount = Field(
        default=1, validation_alias=AliasChoices("gpu_count", "gpus", "num_gpus")
    )
    gpu_type: GpuType | None = None
    gpu_types: Annotated[list[GpuType], Field(max_length=64), FailFast()] = []
    gpu_memory_each_mb: Annotated[int, Field(ge=0, le=WIDEST)] = 0
    gpu_memory_mb: Annotated[int, Field(ge=0, le=WIDEST)] = 0
    cpu_cores: Annotated[float, Field(ge=0, le=1_000_000)] = 0
    memory_mb: Annotated[int, Field(ge=0, le=WIDEST)] = 0
    max_runtime_minutes: Annotated[float | None, Field(gt=0, le=WIDEST)] = None
    max_runtime: Annotated[float | None, Field(gt=0, le=WIDEST)] = None
    allowed_gpus: GpuWords = []
    excluded_gpus: GpuWords = []
    nodes: NodeNames = []
    excluded_nodes: NodeNames = []
    labels: Labels = {}
    exclusive: bool = False
    same_island: bool = False
    spread: bool = False
    deadline: Word | None = None
    preemptible: bool = True
    checkpoint_signal: Annotated[int, Field(ge=1, le=1000)] | Word | None = None
    reservation: Word | None = None
    requeue: bool = False
    max_retries: Annotated[int, Field(ge=0, le=1000)] = 0
    backoff_seconds: Annotated[float, Field(ge=0, le=86_400)] = 10
    after: Annotated[list[AfterModel], Field(max_length=10_000), FailFast()] = []
