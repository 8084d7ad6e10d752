"""The sentences people read, and the facts programs read."""

import pytest

from tgpu.core import errors


def test_invalid_request_names_field_value_and_remedy() -> None:
    error = errors.InvalidRequest("gpus", -1, "must be at least 0.1")
    assert str(error) == error.message == "gpus: must be at least 0.1 (got -1)"
    assert error.details == [{"field": "gpus", "value": "-1", "remedy": "must be at least 0.1"}]
    assert error.field == "gpus"


def test_a_long_value_is_cut_in_the_sentence() -> None:
    error = errors.InvalidRequest("name", "x" * 1000, "is too long")
    assert len(error.message) < 120
    assert error.message.endswith("...)")


def test_quota_exceeded_gives_the_three_numbers() -> None:
    error = errors.QuotaExceeded("T", "GPUs", "8", "4", "2")
    assert error.message == "quota exceeded for tenant T: GPUs requested=8, quota=4, current=2"
    assert error.details[0]["resource"] == "GPUs"
    assert isinstance(error, errors.InvalidRequest)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (errors.NotFound("job", "j9"), "no job named 'j9'"),
        (errors.NotFound("job", "j9", "see tgpu list"), "no job named 'j9'; see tgpu list"),
        (errors.Duplicate("j1"), "job j1 already exists"),
        (
            errors.IllegalMove("j1", "completed", "be held"),
            "job j1 is completed, so it cannot be held",
        ),
        (errors.Unavailable("the disk is full"), "the disk is full"),
        (errors.Forbidden("not yours"), "not yours"),
        (errors.InvariantBroken("two facts"), "two facts"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_every_error_says_what_is_wrong(error: errors.SchedulerError, sentence: str) -> None:
    assert error.message == sentence
    assert isinstance(error.details, list)


def test_the_tree_drawn_in_the_module_is_the_tree() -> None:
    def names(root: type[Exception]) -> list[str]:
        return [root.__name__, *(name for sub in root.__subclasses__() for name in names(sub))]

    ours = [name for name in names(errors.SchedulerError) if hasattr(errors, name)]
    assert errors.__doc__ is not None
    drawn = errors.__doc__.split("\n\n")[1].splitlines()
    assert [line.strip(" │├└─").split()[0] for line in drawn] == ours
