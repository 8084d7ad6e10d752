"""Instants and secrets as they are shown."""

import pytest

from gpu_scheduler.api.rest.view import MASK, iso, masked
from gpu_scheduler.core.job import Detail


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (2**53, "9007199254740s"),
        (-(2**53), "-9007199254741s"),
    ],
)
def test_an_instant_is_shown_also_where_no_calendar_has_it(at: int, text: str) -> None:
    assert iso(at) == text


@pytest.mark.parametrize(
    "name",
    [
        "API_KEY",
        "hf_token",
        "Secret",
        "DB_PASSWORD",
        "PGPASSWD",
        "PWD_DB",
        "AWS_CREDENTIALS",
        "AUTH",
        "SESSION_COOKIE",
        "PRIVATE_THING",
        "SENTRY_DSN",
    ],
)
def test_values_of_secret_looking_names_are_masked(name: str) -> None:
    assert masked(Detail(env=((name, "s3cr3t"),))) == {name: MASK}


@pytest.mark.parametrize("name", ["SEED", "LR", "OMP_NUM_THREADS", "DATA"])
def test_other_values_are_shown(name: str) -> None:
    assert masked(Detail(env=((name, "1"),))) == {name: "1"}
