"""What tenants spent of their budgets, as /api/v1 shows it."""

from typing import Literal

from pydantic import BaseModel, Field


class BudgetStatus(BaseModel):
    tenant_id: str
    window: Literal["day", "week", "month", "total"]
    action: Literal["warn", "hold", "stop"] = Field(description="What happens once it is used up.")
    budget_gpu_hours: float
    spent_gpu_hours: float = Field(description="In this window, running jobs included.")
    left_gpu_hours: float = Field(description="Never below 0.")
    percent: float = Field(description="Of the budget that was spent.")
    budget_cost: float | None = Field(
        default=None, description="At billing.cost_per_gpu_hour; null where that is 0."
    )
    spent_cost: float | None = None
    current_gpus: float = Field(description="GPUs that count at present.")
    window_start: str | None = Field(default=None, description="Null for the window `total`.")
    window_end: str | None = Field(default=None, description="When the next window begins.")
    runs_out_at: str | None = Field(
        default=None,
        description="When it is used up if its jobs go on as they are; null: not in this window.",
    )
    used_up: bool
    holds: bool = Field(description="Whether its jobs are kept from starting by it.")


class BudgetList(BaseModel):
    """By tenant; tenants without a budget are left out."""

    budgets: list[BudgetStatus]
