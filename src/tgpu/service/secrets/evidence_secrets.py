"""Keeps a job's secrets out of causes that quote its log."""

from collections.abc import Mapping
from dataclasses import replace

from tgpu.core.model.cause import Evidence
from tgpu.core.model.ids import JobId
from tgpu.engines.api import AttemptKey
from tgpu.service.secrets.sealing import CannotUnseal, Sealer
from tgpu.store.api import Store, StoreUnavailable
from tgpu.text.masking import given_values, mask_values


async def without_secrets(
    evidence: Mapping[AttemptKey, Evidence], store: Store, sealer: Sealer
) -> Mapping[AttemptKey, Evidence]:
    """Causes are on record readable, and travel further than logs. A log whose job cannot be asked
    for its secrets tells nothing."""
    found = {}
    for key, one in evidence.items():
        tail = one.log_tail
        if tail:
            tail = await _masked(JobId(key.job_id), tail, store, sealer)
        found[key] = one if tail == one.log_tail else replace(one, log_tail=tail)
    return found


async def _masked(job_id: JobId, tail: str, store: Store, sealer: Sealer) -> str:
    try:
        stored = await store.job(job_id)
        if stored is None or not stored.detail.secrets:
            return tail
        return mask_values(tail, given_values(sealer.unsealed(stored.detail).secrets))
    except (StoreUnavailable, CannotUnseal):
        return ""
