"""Budgets, as /api/v1 shows them."""

from typing import Literal

from pydantic import BaseModel, Field


class BudgetStatus(BaseModel):
    tenant_id: str
    window: Literal["day", "week", "month", "total"]
    action: Literal["warn", "hold", "stop"] = Field(description="What happens when it is used up.")
    budget_gpu_hours: float
    spent_gpu_hours: float = Field(description="Spent in this window, including running jobs.")
    left_gpu_hours: float = Field(description="Never below 0.")
    percent: float = Field(description="Percentage of the budget that is spent.")
    budget_cost: float | None = Field(
        default=None, description="At billing.cost_per_gpu_hour; null if that is 0."
    )
    spent_cost: float | None = None
    current_gpus: float = Field(description="GPUs that count now.")
    window_start: str | None = Field(default=None, description="Null for the window `total`.")
    window_end: str | None = Field(default=None, description="When the next window begins.")
    runs_out_at: str | None = Field(
        default=None,
        description="When it will be used up if its jobs continue; null: not in this window.",
    )
    used_up: bool
    holds: bool = Field(description="Whether it keeps its jobs from starting.")


class BudgetList(BaseModel):
    """By tenant; tenants without a budget are left out."""

    budgets: list[BudgetStatus]
