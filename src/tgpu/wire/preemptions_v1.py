"""Receipts of preemptions, as /api/v1 shows them."""

from pydantic import BaseModel, Field


class PreemptionModel(BaseModel):
    job_id: str = Field(description="The preempted job.")
    attempt: int = Field(description="Its attempt that was preempted.")
    tenant_id: str
    user: str = ""
    gpu_count: float = Field(description="GPUs it had.")
    to: str | None = Field(
        default=None,
        description="The job or reservation it was preempted for; null: one of another tenant.",
    )
    to_tenant_id: str | None = None
    cause: str = Field(description="priority, reclaim, booking or policy.")
    reason: str = Field(description="Why, in a sentence.")
    asked_at: str = Field(description="When it was decided.")
    gone_at: str | None = Field(
        default=None, description="When it had stopped; null before that, or if it ended by itself."
    )
    lost_gpu_seconds: float = Field(
        description="GPU time since its last checkpoint, which is lost."
    )


class PreemptionList(BaseModel):
    preemptions: list[PreemptionModel]
