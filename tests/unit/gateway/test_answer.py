"""Answers that are held whole."""

import json

import pytest

from tgpu.gateway.answer import (
    Answer,
    is_known,
    not_there,
    pack,
    too_many,
    unpack,
    with_etag,
)

SOME = Answer(200, [(b"content-type", b"application/json")], b"{}")


def test_the_same_body_has_the_same_tag_and_another_has_another() -> None:
    assert with_etag(SOME).etag == with_etag(SOME).etag
    assert with_etag(Answer(200, [], b"[]")).etag != with_etag(SOME).etag


def test_the_tag_of_the_service_is_kept() -> None:
    tagged = with_etag(Answer(200, [(b"etag", b'"its own"')], b"{}"))
    assert (tagged.etag, tagged.headers) == (b'"its own"', [])


@pytest.mark.parametrize("asked", [b'"a"', b'W/"a"', b'"b", "a"', b"*"])
def test_a_caller_that_has_the_body_is_known(asked: bytes) -> None:
    assert is_known(Answer(200, [], b"", b'"a"'), asked)


@pytest.mark.parametrize("asked", [b"", b'"b"', b"a"])
def test_a_caller_that_has_another_body_is_not(asked: bytes) -> None:
    assert not is_known(Answer(200, [], b"", b'"a"'), asked)


def test_an_answer_survives_its_way_through_redis() -> None:
    assert unpack(pack(with_etag(SOME))) == with_etag(SOME)


@pytest.mark.parametrize("data", [b"", b"nonsense", pack(SOME)[:-1], b"\x91\x01"])
def test_what_is_no_answer_is_none(data: bytes) -> None:
    assert unpack(data) is None


def test_errors_have_the_shape_of_all_errors() -> None:
    for answer, code in ((too_many(0.2), "RATE_LIMITED"), (not_there("http://x"), "UNAVAILABLE")):
        error = json.loads(answer.body)["error"]
        assert error["code"] == code
        assert set(error) == {"code", "message", "details"}
        assert (b"retry-after", b"1") in answer.headers
