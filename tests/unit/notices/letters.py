"""Notices for tests."""

from typing import Any

from tgpu.core.model.ids import JobId, TenantId
from tgpu.notices.notice import Letter, Notice, NoticeKind


def a_notice(
    kind: NoticeKind = NoticeKind.FAILURE, notice_id: str = "7-1000", **fields: Any
) -> Notice:
    made: dict[str, Any] = {
        "at": 1_000,
        "title": "job 12 (train) failed",
        "text": "cause: exit code 1",
        "job_id": JobId("12"),
        "name": "train",
        "user": "ada",
        "tenant_id": TenantId("vision"),
        "cause": "exit code 1",
    }
    return Notice(notice_id, kind, **(made | fields))


def a_letter(**fields: Any) -> Letter:
    return Letter(a_notice(**fields))
