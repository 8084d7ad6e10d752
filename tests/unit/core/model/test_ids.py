import pytest

from tgpu.core.model.ids import is_job_id


@pytest.mark.parametrize("text", ["j1", "_x", "7", "a.b-c_d", "A" * 128])
def test_a_job_id_is_a_plain_name(text: str) -> None:
    assert is_job_id(text)


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "-rf", ".hidden", "a/b", "../x", "a b", "a\n", "a\0", "ä", "A" * 129, "a:b"],
    ids=repr,
)
def test_what_could_be_another_path_or_an_option_is_no_job_id(text: str) -> None:
    assert not is_job_id(text)
