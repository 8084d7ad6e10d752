"""Targets of notices in `/api/v1/notices`, without secrets."""

from pydantic import BaseModel, ConfigDict


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NoticeModel(_Model):
    """One target of notices, and its deliveries since the service started."""

    name: str
    kind: str  # "mail", "webhook", "slack", "desktop"
    where: str  # the server, without what is secret
    events: list[str]
    tenants: list[str]  # empty: all
    users: list[str]  # empty: all
    for_jobs: bool  # sends what jobs ask for by --mail-user
    sent: int
    dropped: int  # refused, or too old
    failed_tries: int
    problem: str | None  # why the last try failed; null once one worked
    behind: int  # events of the journal that it has yet to look at


class NoticeList(_Model):
    notices: list[NoticeModel]


class NoticeTried(_Model):
    """Result of a test notice."""

    name: str
    where: str
    ok: bool
    problem: str | None
    seconds: float
