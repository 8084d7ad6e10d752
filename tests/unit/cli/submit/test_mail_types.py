"""The words of --mail-type."""

import pytest

from tgpu.cli.submit.mail_types import parse_mail_types
from tgpu.wire.mail import MAIL_EVENTS


def test_slurm_s_words_are_understood():
    assert parse_mail_types(["BEGIN", "END", "FAIL"]) == ["start", "end", "failure"]


def test_all_is_all_and_none_is_none():
    assert parse_mail_types(["ALL"]) == list(MAIL_EVENTS)
    assert parse_mail_types(["none"]) == []


def test_an_unknown_word_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'ends' must be all, none, or one of start, end"):
        parse_mail_types(["ends"])
