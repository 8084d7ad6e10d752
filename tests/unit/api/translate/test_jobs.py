"""Instants and secrets as they are shown."""

import pytest

from tgpu.api.translate.shown import shown_detail, shown_text
from tgpu.core.model.job import Detail
from tgpu.text.instants import utc_millis_text
from tgpu.text.masking import MASK


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
    assert utc_millis_text(at) == text


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
    assert dict(shown_detail(Detail(env=((name, "s3cr3t"),))).env) == {name: MASK}


@pytest.mark.parametrize("name", ["SEED", "LR", "OMP_NUM_THREADS", "DATA"])
def test_other_values_are_shown(name: str) -> None:
    assert dict(shown_detail(Detail(env=((name, "1"),))).env) == {name: "1"}


def test_a_secret_of_one_place_is_hidden_in_all_others() -> None:
    detail = Detail(
        name="run with s3cr3t-99",
        argv=("python", "x.py", "--wandb", "s3cr3t-99", "--token", "t0k3n-77"),
        env=(("WANDB_API_KEY", "s3cr3t-99"), ("NOTE", "t0k3n-77 it is")),
        params=(("password", "p"), ("lr", "0.1")),
    )
    shown = shown_detail(detail)
    assert shown.name == f"run with {MASK}"
    assert shown.argv == ("python", "x.py", "--wandb", MASK, "--token", MASK)
    assert dict(shown.env) == {"WANDB_API_KEY": MASK, "NOTE": f"{MASK} it is"}
    assert shown.params == (("password", MASK), ("lr", "0.1"))
    assert shown_text("exit code 1: KeyError: 't0k3n-77'", detail).endswith(f"'{MASK}'")
