"""A secret that a program wrote into its log does not get into the cause of its end."""

from dataclasses import replace

from tests.unit.service.world import Box, a_box, a_submission
from tgpu.core.model.cause import Evidence
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Detail
from tgpu.engines.api import AttemptKey
from tgpu.service.secrets.evidence_secrets import without_secrets
from tgpu.service.secrets.sealing import KEY_BYTES, Sealer

WORD = "unremarkableword"
LOG = Evidence(log_tail=f"ValueError: {WORD} is no key")


async def told(box: Box, sealer: Sealer, **secrets: str) -> str:
    given = tuple(secrets.items())
    detail = Detail(argv=("python", f"--word={WORD}"), secrets=given)
    await box.submit(replace(a_submission(job_id="j"), detail=detail))
    key = AttemptKey("j", 1)
    found = await without_secrets({key: LOG}, box.service.store, sealer)
    return found[key].log_tail


async def test_a_secret_is_hidden_by_its_value() -> None:
    async with a_box() as box:
        assert await told(box, box.service.sealer, WORD=WORD) == "ValueError: ****** is no key"
        stored = await box.service.store.job(JobId("j"))
        assert stored is not None
        assert WORD not in repr(stored.detail)  # neither in its place nor in the command
        assert box.service.sealer.unsealed(stored.detail).secrets == (("WORD", WORD),)


async def test_a_log_of_a_job_without_secrets_is_left_as_it_is() -> None:
    async with a_box() as box:
        assert await told(box, box.service.sealer) == LOG.log_tail


async def test_where_the_secrets_cannot_be_read_the_log_tells_nothing() -> None:
    async with a_box() as box:
        assert await told(box, Sealer([b"x" * KEY_BYTES]), WORD=WORD) == ""
