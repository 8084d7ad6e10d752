from hypothesis import given
from hypothesis import strategies as st

from tgpu.store.postgres_text import from_text, from_values, to_text, to_values

# Mostly the characters that need writing in another way, among some that do not.
texts = st.text(st.sampled_from("\0\ufdd0\ufdd1\ufdd2ab"), max_size=8) | st.text(max_size=8)


@given(texts)
def test_any_text_comes_back_and_has_no_nul_on_the_way(text: str) -> None:
    assert "\0" not in to_text(text)
    assert from_text(to_text(text)) == text


@given(texts, texts)
def test_a_text_is_in_another_exactly_if_it_is_as_written(part: str, whole: str) -> None:
    assert (to_text(part) in to_text(whole)) == (part in whole)


def test_ordinary_texts_stay_as_they_are() -> None:
    for text in ("", "train", "Grüße \U0001f680", "tab\t"):
        assert to_text(text) is text


@given(st.lists(texts | st.none() | st.integers() | st.binary()))
def test_values_come_back(values: list) -> None:
    assert from_values(to_values(values)) == values
