"""Rows of the table of jobs, as all databases have them."""

from collections.abc import Sequence

from tgpu.store import codec
from tgpu.store.api import StoredJob

# Number, id, tenant, instant of submission, facts, detail, name, user, progress, nonce.
JobRow = tuple[int, str, str, int, str, str, str, str, str, str]


def stored_jobs(rows: Sequence[JobRow], values: codec.SharedValues) -> list[StoredJob]:
    return [
        StoredJob(
            number,
            values.job(job_id, tenant_id, submitted_at, facts, nonce),
            values.detail(detail, name, user),
            values.progress(progress),
        )
        for (
            number,
            job_id,
            tenant_id,
            submitted_at,
            facts,
            detail,
            name,
            user,
            progress,
            nonce,
        ) in rows
    ]
