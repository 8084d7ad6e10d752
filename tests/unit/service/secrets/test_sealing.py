"""Secrets on record: sealed, opened again, and of no use without the key."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.core.model.job import Detail
from tgpu.service.secrets.sealing import CannotUnseal, Sealer
from tgpu.text.masking import MASK, mask_argv, mask_text

KEY, OTHER = b"k" * 32, b"o" * 32
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.mark.parametrize(
    ("detail", "base", "lost"),
    [
        (Detail(argv=("x", "plainword"), secrets=(("WORD", "plainword"),)), {}, True),
        (Detail(argv=("x", "pl4inw0rd"), env=(("MY_TOKEN", "pl4inw0rd"),)), {}, True),
        (Detail(argv=("x", "pl4inw0rd")), {"MY_TOKEN": "pl4inw0rd"}, True),
        (Detail(name="plainword", secrets=(("WORD", "plainword"),)), {}, True),
        (Detail(argv=("x", "--password", "plainword")), {}, False),
        (Detail(argv=("x",), secrets=(("WORD", "plainword"),)), {}, False),
        (Detail(argv=("x", "plainword")), {}, False),
    ],
)
def test_what_only_its_owner_s_variables_told_is_lost_to_another(
    detail: Detail, base: dict[str, str], lost: bool
) -> None:
    sealed, _ = Sealer([OTHER]).sealed(detail, (), base)
    anothers = replace(sealed, env=(), secrets=())
    assert Sealer([KEY, OTHER]).lost(anothers) is lost


@given(texts)
def test_what_is_sealed_is_read_again(value: str) -> None:
    sealer = Sealer([KEY])
    sealed = sealer.seal(value)
    assert sealer.unseal(f"a {sealed} b {sealed}") == f"a {value} b {value}"
    assert mask_text(sealed) == MASK


def test_the_same_value_is_sealed_alike_and_under_another_key_otherwise() -> None:
    assert Sealer([KEY]).seal("x") == Sealer([KEY, OTHER]).seal("x")
    assert Sealer([KEY]).seal("x") != Sealer([OTHER]).seal("x")


def test_without_the_key_or_changed_it_is_not_read() -> None:
    sealed = Sealer([KEY]).seal("value")
    with pytest.raises(CannotUnseal, match="which this service does not have"):
        Sealer([OTHER]).unseal(sealed)
    changed = sealed[:-3] + ("A" if sealed[-3] != "A" else "B") + sealed[-2:]
    with pytest.raises(CannotUnseal, match="was changed"):
        Sealer([KEY]).unseal(changed)


def test_an_older_key_still_reads_and_the_new_one_seals_anew() -> None:
    old = Sealer([OTHER]).seal("value")
    both = Sealer([KEY, OTHER])
    assert both.unseal(old) == "value"
    assert Sealer([KEY]).unseal(both.reseal(f"x={old}")) == "x=value"


def test_an_environment_is_stored_without_names_and_values() -> None:
    sealer = Sealer([KEY])
    variables = {"HF_TOKEN": "abc", "HOME": "/home/ada"}
    env_id, stored = sealer.environment(variables)
    assert not any(word in str(stored) for word in ("HF_TOKEN", "abc", "ada"))
    assert sealer.opened(stored) == variables
    assert sealer.opened(variables) == variables  # as an earlier version stored it
    assert env_id != Sealer([OTHER]).environment(variables)[0]
    assert env_id in Sealer([OTHER, KEY]).env_ids(variables)


details = st.builds(
    Detail,
    name=texts,
    argv=st.lists(
        texts | st.sampled_from(["--token", "x --password y", "A_KEY=1", "--token={p}"])
    ).map(tuple),
    env=st.lists(st.tuples(st.sampled_from(["HF_TOKEN", "SEED", "URL"]), texts)).map(tuple),
    params=st.lists(st.tuples(st.sampled_from(["token", "lr"]), texts), max_size=2).map(tuple),
)


@given(details, st.dictionaries(st.sampled_from(["API_KEY", "HOME"]), texts))
def test_every_detail_runs_as_it_was_given(detail: Detail, base: dict[str, str]) -> None:
    sealer = Sealer([KEY])
    sealed, params = sealer.sealed(detail, (("token", ("a", "b")), ("p", ("{p}",))), base)
    assert sealer.unsealed(sealed) == detail
    unsealed = [(name, [sealer.unseal(value) for value in values]) for name, values in params]
    assert unsealed == [("token", ["a", "b"]), ("p", ["{p}"])]


def test_what_a_caller_writes_like_something_sealed_opens_nothing() -> None:
    sealer = Sealer([KEY])
    theirs = sealer.seal("of another")
    detail = Detail(argv=("echo", theirs), name=f"{theirs}\ue0000\ue001")
    sealed, _ = sealer.sealed(detail, (), {})
    assert sealer.unsealed(sealed) == detail


def test_secrets_are_sealed_wherever_they_stand_and_the_rest_is_readable() -> None:
    detail = Detail(
        name="run s3cr3t-99",
        argv=("python", "x.py", "--password", "hunter2-x", "--w", "s3cr3t-99", "--lr", "0.1"),
        env=(("DB_PASSWORD", "hunter2-x"), ("SEED", "1")),
    )
    sealed, _ = Sealer([KEY]).sealed(detail, (), {"WANDB_API_KEY": "s3cr3t-99"})
    assert "s3cr3t-99" not in str(sealed)
    assert "hunter2-x" not in str(sealed)
    assert (sealed.argv[:3], sealed.argv[-2:]) == (
        ("python", "x.py", "--password"),
        ("--lr", "0.1"),
    )
    assert dict(sealed.env)["SEED"] == "1"
    assert mask_argv(sealed.argv)[3] == MASK


def test_names_in_braces_stay_for_the_sweep_to_fill_in() -> None:
    detail = Detail(argv=("x", "--token=a{t}", "--password", "{p}"))
    sealed, _ = Sealer([KEY]).sealed(detail, (("t", ("1",)), ("p", ("2",))), {})
    assert sealed.argv == detail.argv
    assert Sealer([KEY]).sealed(replace(detail, argv=("x",)), (), {})[0].argv == ("x",)
