"""A JSON list read as it comes in."""

import json

import pytest

from tgpu.api.rest.loading.batch import ListItems
from tgpu.api.rest.loading.ingest import LONGEST, Item
from tgpu.api.rest.problem import ApiProblem

VALUES = [{"job_id": "a", "x": [1, {"y": '"]}'}]}, 17, -1.5e3, "té\\", [], {}, None, True, "\ud83d"]
TEXT = json.dumps(VALUES, indent=1).encode()


def items(data: bytes, piece: int) -> list[Item]:
    reader = ListItems()
    reader._try_at = 0
    found: list[Item] = []
    for at in range(0, len(data), piece):
        found += reader.feed(data[at : at + piece])
    return found + list(reader.end())


@pytest.mark.parametrize("piece", [1, 2, 7, 1000])
def test_the_elements_are_the_same_however_they_are_cut(piece: int) -> None:
    found = items(TEXT, piece)
    assert [number for number, _ in found] == list(range(len(VALUES)))
    assert [json.loads(text) for _, text in found] == VALUES


@pytest.mark.parametrize("piece", [1, 1000])
def test_nothing_is_in_an_empty_list(piece: int) -> None:
    assert items(b" [ ] \n", piece) == []


@pytest.mark.parametrize("piece", [1, 1000])
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "it ends too early"),
        ("[1, 2", "it ends too early"),
        ("[1,", "it ends too early"),
        ("{}", "this is an object"),
        ('"x"', "this is text"),
        ("true", "this is a truth value"),
        ("null", "this is a number or null"),
        ("[1 2]", "'2' is not expected at character 3"),
        ("[1,]", "a value is missing at character 3"),
        ("[,1]", "a value is missing at character 1"),
        ("[1]]", "']' is not expected at character 3"),
        ("[1] x", "'x' is not expected at character 4"),
        ("[nul]", "a value is missing at character 1"),
        (f"[{'1' * 5000}]", "a number in it has too many digits"),
        (f"[{'[' * 50_000}", "it is nested too deeply"),
    ],
)
def test_what_is_no_list_is_said_where(text: str, complaint: str, piece: int) -> None:
    with pytest.raises(ApiProblem) as caught:
        items(text.encode(), piece)
    assert caught.value.message == f"body: must be a JSON list of jobs: {complaint}"


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(ApiProblem, match="it is not UTF-8"):
        items(b'["\xff"]', 100)


def feed_without_end(reader: ListItems) -> None:
    for _ in range(100):
        assert not list(reader.feed(b"x" * 4096))
        assert len(reader._rest) <= 2 * LONGEST


def test_an_element_without_end_is_not_kept() -> None:
    reader = ListItems()
    assert not list(reader.feed(b'["'))
    with pytest.raises(ApiProblem, match="element 0 is longer than"):
        feed_without_end(reader)
