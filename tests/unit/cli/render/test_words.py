import pytest

from tgpu.cli.render.words import command_text, gpus_text, index_ranges


@pytest.mark.parametrize(
    ("count", "kind", "text"),
    [(1, None, "1 GPU"), (2, None, "2 GPUs"), (0.5, None, "0.5 GPU"), (4, "A100", "4 A100")],
)
def test_gpus_are_counted_as_people_do(count, kind, text):
    assert gpus_text(count, kind) == text


def test_a_command_can_be_typed_again():
    assert command_text(["sh", "-c", "echo 'a b'"]) == """sh -c 'echo '"'"'a b'"'"''"""
    assert command_text([]) == "(lease)"


@pytest.mark.parametrize(("indexes", "text"), [([], ""), ([3], "3"), ([2, 0, 1, 5], "0-2,5")])
def test_indexes_in_a_row_are_a_range(indexes, text):
    assert index_ranges(indexes) == text
