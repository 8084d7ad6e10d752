"""Plain jobs share what they have alike."""

from typing import Any

from tgpu.api.rest.loading.plain import Interned, PlainJob


def a_plain(job_id: str, **fields: Any) -> PlainJob:
    return PlainJob(job_id, "t1", "A100", 1, 5, 0, **fields)


def test_jobs_of_one_user_share_their_options() -> None:
    interned = Interned("ada")
    first, second = interned.job(a_plain("a")), interned.job(a_plain("b"))
    assert first.options is second.options
    assert first.request is second.request
    assert (first.options.user, first.options.lease) == ("ada", True)


def test_jobs_with_one_limit_share_their_options_too() -> None:
    interned = Interned("ada")
    first, second = (interned.job(a_plain(name, max_runtime=1.5)) for name in ("a", "b"))
    assert first.options is second.options
    assert (first.options.user, first.options.time_limit_ms) == ("ada", 1500)
