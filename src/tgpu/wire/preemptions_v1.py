"""Receipts of preemptions, as /api/v1 shows them."""

from pydantic import BaseModel, Field


class PreemptionModel(BaseModel):
    job_id: str = Field(description="The preempted job.")
    attempt: int = Field(description="Which of its attempts was ended.")
    tenant_id: str
    user: str = ""
    gpu_count: float = Field(description="GPUs that it gave up.")
    to: str | None = Field(
        default=None,
        description="The job, or the reservation, that gets them; null: one of another tenant.",
    )
    to_tenant_id: str | None = None
    cause: str = Field(description="priority, reclaim, booking or policy.")
    reason: str = Field(description="Why, in a sentence.")
    asked_at: str = Field(description="When it was decided.")
    gone_at: str | None = Field(
        default=None, description="When it was gone; null before, or if it ended by itself."
    )
    lost_gpu_seconds: float = Field(
        description="GPU time since its last checkpoint, which must be done again."
    )


class PreemptionList(BaseModel):
    preemptions: list[PreemptionModel]
