"""Names of GPUs: what is read, what is refused, what is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.text.gpu_names import (
    GpuChoice,
    choices_text,
    compact_text,
    in_order,
    is_gpus,
    names_text,
    read_gpu,
    read_gpus,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [("3", 3), ("b/3", ("b", 3)), (" rack-1.gpu_2/10 ", ("rack-1.gpu_2", 10)), ("0/1", ("0", 1))],
)
def test_one_gpu_is_an_index_or_has_its_node(text: str, found: GpuChoice) -> None:
    assert read_gpu(text) == found


@pytest.mark.parametrize("text", ["", "b/", "/3", "b/x", "0-3", "b/0-3", "-1", "a/b/3", "1234567"])
def test_what_is_no_gpu_is_refused_with_what_one_looks_like(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not a GPU: write an index like 3, or with its node b/3"
    ):
        read_gpu(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0-2,5", [0, 1, 2, 5]),
        ("b/0-1,a/3", [("a", 3), ("b", 0), ("b", 1)]),
        ("1,b/0,1", [1, ("b", 0)]),
    ],
)
def test_several_gpus_are_ranges_and_lists(text: str, found: list[GpuChoice]) -> None:
    assert read_gpus(text) == found
    assert is_gpus(text)


@pytest.mark.parametrize("text", ["0,,1", "b/0-b/1", "x", ""])
def test_what_are_no_gpus_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"are not GPU indexes: write them like 0-3"):
        read_gpus(text)


def test_a_range_has_its_lower_end_first() -> None:
    with pytest.raises(ValueError, match=r"3 is above 1; write 1-3"):
        read_gpus("b/3-1")


@pytest.mark.parametrize(
    "text", ["0-999999", "a/0-4095,b/0", ",".join(["a/0-4000"] * 2 + ["b/0-4000"])]
)
def test_nobody_names_more_than_there_can_be(text: str) -> None:
    with pytest.raises(ValueError, match=r"has more than 4096 GPUs"):
        read_gpus(text)


def test_people_see_bare_indexes_while_there_is_one_node() -> None:
    held = [("a", 0), ("a", 1)]
    assert names_text(held, several_nodes=False) == "0-1"
    assert names_text(held, several_nodes=True) == "a/0-1"
    assert names_text([*held, ("b", 3)], several_nodes=False) == "a/0-1,b/3"
    assert names_text([], several_nodes=True) == ""


def test_names_are_joined_to_ranges() -> None:
    assert compact_text(["b/0", "a/1", "a/0", "a/3"]) == "a/0-1,a/3,b/0"


_nodes = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,8}", fullmatch=True)
_indexes = st.integers(0, 99)


@given(st.sets(_indexes | st.tuples(_nodes, _indexes), min_size=1, max_size=20))
def test_what_is_written_is_read_back(choices: set[GpuChoice]) -> None:
    assert read_gpus(choices_text(choices)) == in_order(choices)
