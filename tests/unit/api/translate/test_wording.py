"""Complaints of libraries, in words for people."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tgpu.api.translate.wording import (
    complaints,
    of_bad_json,
    of_msgspec,
    sentence,
)
from tgpu.core.errors import quoted


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    whole: int = 0
    real: Annotated[float, Field(gt=0, le=10)] = 1
    text: Annotated[str, Field(min_length=1, max_length=3)] = "x"
    truth: bool = False
    kind: Literal["ok", "any"] = "ok"
    command: list[str] = []
    params: dict[str, list[str]] = {}
    gpu_count: float | int | str = 1


def complain(values: Any) -> list[dict[str, object]]:
    with pytest.raises(ValidationError) as caught:
        Model.model_validate(values)
    found = [{**error, "loc": ("body", *error["loc"])} for error in caught.value.errors()]
    return complaints(found)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"whole": "x"}, "whole: must be a whole number (got 'x')"),
        ({"whole": 1.5}, "whole: must be a whole number (got 1.5)"),
        ({"real": "x"}, "real: must be a number (got 'x')"),
        ({"real": 0}, "real: must be above 0 (got 0)"),
        ({"real": 11}, "real: must be at most 10 (got 11)"),
        ({"text": 5}, "text: must be text (got 5)"),
        ({"text": ""}, "text: must not be empty (got '')"),
        ({"text": "long"}, "text: must have at most 3 characters (got 'long')"),
        ({"truth": 1}, "truth: must be true or false (got 1)"),
        ({"kind": "x"}, "kind: must be 'ok' or 'any' (got 'x')"),
        ({"command": "x"}, """command: must be a list, like ["python", "train.py"] (got 'x')"""),
        ({"command": [1]}, "command.0: must be text (got 1)"),
        ({"params": {"lr": "x"}}, "params.lr: must be a list (got 'x')"),
        ({"gpu_count": None}, "gpu_count: must be a number (got None)"),
        ({"x": 1}, "x: is not a field of this request; GET /docs shows those there are (got 1)"),
    ],
)
def test_a_complaint_names_field_remedy_and_value(values: Any, words: str) -> None:
    assert sentence(complain(values)) == words


def test_several_complaints_are_one_message() -> None:
    found = complain({"whole": "x", "truth": 1})
    assert sentence(found) == (
        "whole: must be a whole number (got 'x'); truth: must be true or false (got 1)"
    )


def test_a_message_names_three_and_the_details_all() -> None:
    found = complain({f"x{n}": 1 for n in range(10)})
    assert len(found) == 10
    assert sentence(found).count("is not a field") == 3


def test_what_is_missing_has_no_value() -> None:
    found = complaints([{"type": "missing", "loc": ("query", "now"), "msg": "Field required"}])
    assert sentence(found) == "now: is required"


def test_text_that_is_no_json_is_the_body_s_fault() -> None:
    error = {"type": "json_invalid", "loc": ("body", 12), "ctx": {"error": "Expecting value"}}
    assert sentence(complaints([error])) == "body: must be JSON: a value is missing at character 12"


def test_a_body_of_another_type_is_told_which_header_it_needs() -> None:
    error = {"type": "model_attributes_type", "loc": ("body",), "input": b"a=b"}
    assert "Content-Type: application/json" in sentence(complaints([error]))


def test_a_long_value_is_cut() -> None:
    assert len(quoted("x" * 10_000_000)) <= 80
    assert quoted("x" * 100).endswith("...")
    assert quoted([1, 2]) == "[1, 2]"


@pytest.mark.parametrize(
    ("complaint", "words"),
    [
        ("Expected `int`, got `str`", "must be a whole number"),
        ("Expected `float | null`, got `str`", "must be a number"),
        ("Expected `str`, got `int`", "must be text"),
        ("Expected `object`, got `array`", "must be a JSON object"),
        ("Expected `int` >= 1", "must be at least 1"),
        ("Expected `int` <= 100000", "must be at most 100000"),
        ("Expected `float` > 0.0", "must be above 0"),
        ("Expected `str` of length >= 1", "must not be empty"),
        ("Expected `str` of length <= 128", "must have at most 128 characters"),
        ("Number out of range", "must be a smaller number"),
    ],
)
def test_msgspec_s_dialect_is_translated(complaint: str, words: str) -> None:
    assert of_msgspec(complaint) == words


@pytest.mark.parametrize(
    ("complaint", "words"),
    [
        ("Input data was truncated", "it ends too early"),
        ("'utf-8' codec can't decode byte 0xff in position 0", "it is not UTF-8"),
        ("maximum recursion depth exceeded", "it is nested too deeply"),
        (
            "JSON is malformed: something in it is not JSON (byte 3)",
            "something in it is not JSON (byte 3)",
        ),
    ],
)
def test_what_is_wrong_with_broken_json(complaint: str, words: str) -> None:
    assert of_bad_json(complaint) == words
