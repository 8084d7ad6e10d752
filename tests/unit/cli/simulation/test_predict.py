"""`tgpu predict evaluate` on small lists."""

import gzip
import json

import pytest

HEADER = "user,submit_s,gpu_num,duration_s\n"


def write(path, rows, header=HEADER):
    path.write_text(header + "".join(f"{row}\n" for row in rows))
    return str(path)


@pytest.fixture
def lists(tmp_path):
    history = write(tmp_path / "july.csv", [f"ada,{n * 1000},1,{n % 10 + 1}" for n in range(100)])
    test = write(
        tmp_path / "aug.csv", [f"ada,{200_000 + n * 100},1,{n % 10 + 1}" for n in range(50)]
    )
    return history, test


def test_a_table_shows_the_predictor_beside_the_last_two_jobs(tgpu, lists):
    outcome = tgpu("predict", "evaluate", "--history", lists[0], "--test", lists[1])
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0].split() == [
        *("PREDICTOR", "JOBS", "UNDER", "P50", "UNDER", "P90"),
        *("MEDIAN", "ERROR", "MEAN", "ERROR", "RANK", "CORRELATION"),
    ]
    assert lines[1].split()[:2] == ["history", "50"]
    assert lines[2].startswith("last two")
    assert "user 100%" in outcome.err


def test_programs_get_json(tgpu, lists):
    outcome = tgpu("predict", "evaluate", "--history", lists[0], "--test", lists[1], "--json")
    found = json.loads(outcome.out)
    assert found["predictor"]["name"] == "history"
    assert found["predictor"]["jobs"] == 50
    assert 0.3 <= found["predictor"]["under_p50"] <= 0.7
    assert set(found["last_two"]) >= {"under_p90", "mean_error_seconds", "rank_correlation"}


def test_packed_lists_are_read_too(tgpu, lists, tmp_path):
    packed = tmp_path / "aug.csv.gz"
    with open(lists[1], "rb") as plain:
        packed.write_bytes(gzip.compress(plain.read()))
    outcome = tgpu("predict", "evaluate", "--test", str(packed), "--json")
    assert outcome.code == 0
    assert json.loads(outcome.out)["predictor"]["jobs"] == 49  # the first has no past


@pytest.mark.parametrize(
    ("rows", "header", "sentence"),
    [
        (
            ["ada,0,1,5"],
            "user,submit,gpu_num,duration_s\n",
            "line 1, submit_s: this column is missing",
        ),
        (["ada,0,1,5", "ada,1,1,soon"], HEADER, "line 3, duration_s: 'soon' is not a number"),
        (["ada,0,1,-5"], HEADER, "line 2, duration_s: -5 is negative"),
        (["ada,0,-1,5"], HEADER, "line 2, gpu_num: -1 GPUs; it must be more than 0"),
        (["ada,nan,1,5"], HEADER, "line 2, submit_s: nan is not a number"),
        (["ada,0,1"], HEADER, "line 2, duration_s: nothing is not a number"),
        ([], HEADER, "no job could be predicted"),
    ],
)
def test_what_cannot_be_is_named_with_line_and_column(tgpu, tmp_path, rows, header, sentence):
    test = write(tmp_path / "bad.csv", rows, header)
    outcome = tgpu("predict", "evaluate", "--test", test)
    assert outcome.code == 2
    assert sentence in outcome.err


def test_an_unknown_predictor_is_bad_input(tgpu, lists):
    outcome = tgpu("predict", "evaluate", "--test", lists[1], "--predictor", "tarot")
    assert outcome.code == 2
    assert "no predictor 'tarot'; there are: history, limit, none" in outcome.err


def test_a_file_that_is_no_text_is_refused(tgpu, tmp_path):
    path = tmp_path / "noise"
    path.write_bytes(b"\xff\xfe\x00\x01submit_s,duration_s")
    outcome = tgpu("predict", "evaluate", "--test", str(path))
    assert outcome.code == 2
