import pytest

from tgpu.cli import amounts


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [("40G", 40_960), ("500M", 500), ("1.5T", 1_572_864), ("64GiB", 65_536), ("8gb", 8192)],
)
def test_sizes_are_read_in_mebibytes(text, mebibytes):
    assert amounts.parse_mebibytes(text) == mebibytes


@pytest.mark.parametrize(
    ("text", "says"),
    [("64", "write 64G or 64M"), ("x", "500M, 40G"), ("-1G", "500M"), ("0G", "more than 0")],
)
def test_a_bad_size_is_refused_with_what_to_write(text, says):
    with pytest.raises(ValueError, match=says):
        amounts.parse_mebibytes(text)


@pytest.mark.parametrize(("text", "count"), [("2", 2), ("2.0", 2), ("0.5", 0.5), ("-1", -1)])
def test_gpu_counts_are_read_as_numbers_and_judged_elsewhere(text, count):
    assert amounts.parse_gpu_count(text) == count


@pytest.mark.parametrize("text", ["two", "", "nan", "inf", "1/2"])
def test_what_is_no_gpu_count_is_refused(text):
    with pytest.raises(ValueError, match=r"like 1, 2 or 0\.5"):
        amounts.parse_gpu_count(text)


def test_gpu_ids_are_ranges_and_single_indexes():
    assert amounts.parse_gpu_ids("5,0-2,1") == [0, 1, 2, 5]


@pytest.mark.parametrize("text", ["", "3-1", "a", "0-", "-1", "0-999999"])
def test_bad_gpu_ids_are_refused(text):
    with pytest.raises(ValueError, match="GPU"):
        amounts.parse_gpu_ids(text)


@pytest.mark.parametrize(
    ("text", "array"),
    [("1-100%8", ("1-100", 8)), ("1,3,5-9", ("1,3,5-9", None)), ("7", ("7", None))],
)
def test_an_array_has_indexes_and_a_cap(text, array):
    assert amounts.parse_array(text) == array


@pytest.mark.parametrize("text", ["", "1-", "1-5%", "1-5%0", "1-5%x", "a-b"])
def test_a_bad_array_is_refused(text):
    with pytest.raises(ValueError, match="1-"):
        amounts.parse_array(text)


def test_parameters_keep_their_values_as_text():
    assert amounts.parse_params(["lr=0.1,0.01", "opt=a=b"]) == {
        "lr": ["0.1", "0.01"],
        "opt": ["a=b"],
    }


@pytest.mark.parametrize("pairs", [["lr"], ["=1"], ["lr="], ["l r=1"], ["lr=1", "lr=2"]])
def test_bad_parameters_are_refused(pairs):
    with pytest.raises(ValueError, match=r"--param|parameter"):
        amounts.parse_params(pairs)


def test_a_variable_without_a_value_is_taken_over_from_the_submitter():
    assert amounts.parse_variables(["A=1=2", "B"], {"B": "mine"}) == {"A": "1=2", "B": "mine"}


@pytest.mark.parametrize("pair", ["", "=x", "GONE"])
def test_bad_variables_are_refused(pair):
    with pytest.raises(ValueError, match="=value"):
        amounts.parse_variables([pair], {})


def test_ids_may_be_joined_with_commas():
    assert amounts.split_ids(["3,4", " 5 ", ","]) == ["3", "4", "5"]
