"""How large a body may be."""

import pytest
from starlette.exceptions import HTTPException

from tgpu.api.limits import BodyLimits, limited


async def test_a_body_that_is_longer_than_it_says_is_cut_off():
    async def receive():
        return {"type": "http.request", "body": b"x" * 600_000, "more_body": True}

    read = limited(receive, 1 << 20)
    await read()
    with pytest.raises(HTTPException) as refused:
        await read()
    assert refused.value.status_code == 413


def test_only_what_is_read_as_a_stream_may_be_large():
    limits = BodyLimits(1, 7)
    assert limits.of("/api/v1/jobs") == 1 << 20
    assert limits.of("/ingest") == 7 << 20
