import pytest

from tgpu.text.sizes import bytes_text, mebibytes_text, parse_mebibytes


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [("40G", 40_960), ("500M", 500), ("1.5T", 1_572_864), ("64GiB", 65_536), ("8gb", 8192)],
)
def test_sizes_are_read_in_mebibytes(text, mebibytes):
    assert parse_mebibytes(text) == mebibytes


@pytest.mark.parametrize(
    ("text", "says"),
    [("64", "write 64G or 64M"), ("x", "500M, 40G"), ("-1G", "500M"), ("0G", "more than 0")],
)
def test_a_bad_size_is_refused_with_what_to_write(text, says):
    with pytest.raises(ValueError, match=says):
        parse_mebibytes(text)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0M"), (1023, "1023M"), (1536, "1.5G"), (81_920, "80G")]
)
def test_sizes_are_short(size, text):
    assert mebibytes_text(size) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 30, "3.0 GiB"),
        (1 << 60, "1024.0 PiB"),
    ],
)
def test_bytes_are_written_for_people(size, text):
    assert bytes_text(size) == text


def test_bytes_may_be_written_as_short_as_they_are_exact():
    assert [bytes_text(size, ".4g") for size in (100, 1 << 20, 3 << 19)] == [
        "100 B",
        "1 MiB",
        "1.5 MiB",
    ]
