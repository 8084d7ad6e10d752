"""llm_config.json: what it may say, and what is said of what it may not."""

import json

import pytest

from tgpu.core.prediction.model_size import Requirement
from tgpu.service.forecast.size_table import read_size_table


def read(values):
    return read_size_table(json.dumps(values).encode())


def test_the_documents_table_is_read():
    table, problems = read(
        {"default_requirement": 1.0, "models": {"qwen2.5-3b-inst": 0.5, "qwen2.5-32b-inst": 2.0}}
    )
    assert problems == []
    assert table.default == Requirement(1000)
    assert table.models == (
        ("qwen2.5-3b-inst", Requirement(500)),
        ("qwen2.5-32b-inst", Requirement(2000)),
    )


def test_a_model_may_say_its_memory_too():
    table, problems = read({"models": {"a": {"gpus": 2, "memory_gb": 1.5}, "b": {"memory_gb": 4}}})
    assert problems == []
    assert dict(table.models) == {"a": Requirement(2000, 1536), "b": Requirement(1000, 4096)}


def test_a_wrong_line_is_named_and_the_others_hold():
    table, problems = read({"models": {"a": 0.5, "b": "two", "c": {"gpu": 1}, "d": -1}})
    assert [name for name, _ in table.models] == ["a"]
    assert [problem.partition(":")[0] for problem in problems] == [
        "models, 'b'",
        "models, 'c'",
        "models, 'd'",
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is not JSON"),
        (b"[1]", "must be an object"),
        (b'{"models": []}', "models must be an object"),
        (b'{"default_requirement": true}', "default_requirement: GPUs must be a number"),
        (b'{"model": {}}', "'model' is not known; there are: default_requirement, models"),
        (b'{"models": {"a": {"memory_gb": "x"}}}', "memory_gb must be a number"),
    ],
)
def test_what_cannot_be_understood_is_a_problem(content, words):
    table, problems = read_size_table(content)
    assert any(words in problem for problem in problems)
    assert table.default == Requirement(1000)


def test_comments_are_let_pass():
    assert read({"_comment": "x", "//": "y", "models": {}})[1] == []
