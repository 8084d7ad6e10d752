"""Arrays and sweeps unfolded, and indexes as people write them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.service.world import a_submission
from tgpu.core.errors import InvalidRequest
from tgpu.core.model.ids import JobId, TenantId, is_job_id
from tgpu.core.model.job import Detail, Request
from tgpu.service.commands.submission import (
    MAX_CHARACTERS,
    MAX_ELEMENTS,
    Submission,
    parse_indexes,
    unfold,
)


def ids(submission: Submission, base: str = "7") -> list[str]:
    return [job.job_id for job, _ in unfold(submission, JobId(base), 0)]


def argvs(submission: Submission) -> list[tuple[str, ...]]:
    return [detail.argv for _, detail in unfold(submission, JobId("7"), 0)]


def test_a_single_job_has_the_base_id_and_no_array() -> None:
    ((job, detail),) = unfold(a_submission("true", name="n"), JobId("7"), 5)
    assert (job.job_id, job.array, job.submitted_at) == ("7", None, 5)
    assert (detail.argv, detail.name) == (("true",), "n")


def test_an_array_has_an_element_for_each_index() -> None:
    unfolded = unfold(a_submission("true", indexes=(3, 5), max_running=1), JobId("7"), 0)
    arrays = [job.array for job, _ in unfolded]
    assert [job.job_id for job, _ in unfolded] == ["7.3", "7.5"]
    assert [(a.array_id, a.index, a.max_running) for a in arrays if a] == [("7", 3, 1), ("7", 5, 1)]


def test_an_array_of_one_is_still_an_array() -> None:
    assert ids(a_submission("true", indexes=(1,))) == ["7.1"]


def test_a_sweep_has_an_element_for_each_combination_in_the_order_written() -> None:
    sweep = a_submission(
        "t", "--lr", "{lr}", "{bs}", params=(("lr", ("0.1", "0.01")), ("bs", ("32", "64")))
    )
    assert ids(sweep) == ["7.1", "7.2", "7.3", "7.4"]
    assert [argv[2:] for argv in argvs(sweep)] == [
        ("0.1", "32"),
        ("0.1", "64"),
        ("0.01", "32"),
        ("0.01", "64"),
    ]


def test_a_sweep_keeps_its_point_beside_the_command() -> None:
    (_, first), _ = unfold(a_submission("t", params=(("lr", ("1", "2")),)), JobId("7"), 0)
    assert first.params == (("lr", "1"),)


def test_an_array_of_sweeps_numbers_both() -> None:
    both = a_submission("t", "{x}", indexes=(1, 2), params=(("x", ("a", "b")),))
    assert ids(both) == ["7.1.1", "7.1.2", "7.2.1", "7.2.2"]
    assert [argv[1] for argv in argvs(both)] == ["a", "b", "a", "b"]
    indexes = [job.array.index for job, _ in unfold(both, JobId("7"), 0) if job.array]
    assert indexes == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("argument", "becomes"),
    [
        ("{lr}", "0.1"),
        ("--lr={lr}/{lr}", "--lr=0.1/0.1"),
        ('{"lr": {lr}}', '{"lr": 0.1}'),
        ('{"other": {}}', '{"other": {}}'),
        ("{other}", "{other}"),
        ("{{lr}}", "{0.1}"),
        ("{0}", "{0}"),
        ("%s {lr!r}", "%s {lr!r}"),
    ],
)
def test_names_in_braces_are_replaced_literally_and_nothing_else_is(
    argument: str, becomes: str
) -> None:
    (argv,) = argvs(a_submission("t", argument, params=(("lr", ("0.1",)),)))
    assert argv == ("t", becomes)


@given(st.sets(st.integers(0, 20_000), min_size=1, max_size=50), st.integers(0, 3))
def test_ids_sort_as_text_in_the_order_of_the_elements(indexes: set[int], points: int) -> None:
    params = (("x", tuple(str(n) for n in range(points))),) if points else ()
    made = ids(a_submission("t", indexes=tuple(sorted(indexes)), params=params))
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert all(is_job_id(job_id) for job_id in made)


@given(st.integers(0, 4), st.lists(st.integers(1, 4), max_size=3))
def test_size_says_how_many_jobs_it_becomes(elements: int, lengths: list[int]) -> None:
    params = tuple((f"p{n}", ("v",) * length) for n, length in enumerate(lengths))
    submission = a_submission("t", indexes=tuple(range(elements)), params=params)
    assert submission.size == len(unfold(submission, JobId("7"), 0))


def test_elements_share_everything_else() -> None:
    plain = a_submission("t", gpus=2, priority=9)
    array = replace(plain, indexes=(1, 2))
    (one, _), (two, _) = unfold(array, JobId("7"), 3)
    assert one.request == two.request == plain.request
    assert (one.priority, one.submitted_at) == (9, 3)


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        ("1", (1,)),
        ("0", (0,)),
        ("1-4", (1, 2, 3, 4)),
        ("1-4,9", (1, 2, 3, 4, 9)),
        ("9, 1-2", (1, 2, 9)),
        ("5-5", (5,)),
        (f"1-{MAX_ELEMENTS}", tuple(range(1, MAX_ELEMENTS + 1))),
    ],
)
def test_indexes_are_read(text: str, indexes: tuple[int, ...]) -> None:
    assert parse_indexes(text) == indexes


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("", "like 1-100"),
        ("a", "like 1-100"),
        ("1-", "like 1-100"),
        ("-1", "like 1-100"),
        ("1-2-3", "like 1-100"),
        ("1,,2", "like 1-100"),
        ("1.5", "like 1-100"),
        ("٣", "like 1-100"),
        ("9999999999", "like 1-100"),
        ("5-1", "write 1-5"),
        ("1,1", "twice"),
        ("1-3,2", "twice"),
        ("1-10000000", "at most 10000 "),
        (f"0-{MAX_ELEMENTS}", "at most 10000 "),
        (f"1-{MAX_ELEMENTS - 1},{MAX_ELEMENTS},{MAX_ELEMENTS + 1}", "at most 10000 "),
    ],
)
def test_indexes_that_cannot_be_are_refused_with_what_would_do(text: str, remedy: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^array: ") as caught:
        parse_indexes(text)
    assert remedy in caught.value.message


def test_a_parameter_cannot_make_an_argument_that_no_program_takes() -> None:
    detail = Detail(argv=("x", "{a}" * 40_000))
    submission = Submission(
        Request(1000), TenantId("t"), detail=detail, params=(("a", ("v" * 100_000,)),)
    )
    with pytest.raises(InvalidRequest, match=r"params.a: makes an argument of more than 131071"):
        unfold(submission, JobId("j"), 0)


def test_what_all_jobs_of_a_sweep_have_together_is_bounded() -> None:
    detail = Detail(argv=("x", "{a}" + "y" * 100_000))
    values = tuple(str(number) for number in range(1000))
    submission = Submission(Request(1000), TenantId("t"), detail=detail, params=(("a", values),))
    assert submission.characters > MAX_CHARACTERS
    with pytest.raises(InvalidRequest, match="more than 64 MiB"):
        unfold(submission, JobId("j"), 0)
