"""Events, as `/api/v1/events` sends them."""

from typing import Any

from pydantic import BaseModel


class EventModel(BaseModel):
    """One recorded change; continue after its `seq`. GPU readings carry the newest seq."""

    seq: int
    at: str
    kind: str
    job_id: str | None = None
    tenant_id: str | None = None
    state: str | None = None
    data: dict[str, Any] = {}
    job_ids: list[str] = []  # of a submission of many
    decision: int | None = None  # events that were decided together have the same number
    decided_by: str | None = None  # cycle, command or service


class EventList(BaseModel):
    events: list[EventModel]  # oldest first
    next_after: int | None  # pass as `after` for the next page; null at the end
