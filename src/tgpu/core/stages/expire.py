"""Ends leases whose time limit is reached, and frees their GPUs."""

from tgpu.core.stages.draft import Draft


def expire_leases(draft: Draft) -> None:
    draft.expired = draft.state.expired_leases(draft.now)
    for job_id in draft.expired:
        entry = draft.state.entry(job_id)
        if entry is not None and entry.progress.placement is not None:
            draft.trial.give(entry.job, entry.progress.placement)
