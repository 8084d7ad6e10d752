"""The jobs file: what its lines mean, and what is said of those that mean nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.jobs_file.format import BadLine, JobLine, parse_gpus, parse_jobs_file

DOCUMENT = b"""\
# Priority, Script, Conda_Env, Arguments, Allowed_GPUs
0,/data3/experiments/evaluate.py,ml_env,--llm qwen2.5-3b-inst --mode test,0-3
1,/data3/experiments/train.py,ml_env,--llm qwen2.5-7b-inst --epochs 10,4-7
2,/data3/experiments/inference.py,,--model large --batch_size 32,
"""


def only(text: str) -> JobLine:
    read = parse_jobs_file(text.encode())
    assert read.bad == ()
    (line,) = read.lines
    return line


def problem(text: str) -> str:
    read = parse_jobs_file(text.encode())
    assert read.lines == ()
    (bad,) = read.bad
    return bad.problem


def test_the_format_of_the_document_is_read_column_by_column():
    assert parse_jobs_file(DOCUMENT).lines == (
        JobLine(
            2,
            0,
            "/data3/experiments/evaluate.py",
            "ml_env",
            ("--llm", "qwen2.5-3b-inst", "--mode", "test"),
            (0, 1, 2, 3),
        ),
        JobLine(
            3,
            1,
            "/data3/experiments/train.py",
            "ml_env",
            ("--llm", "qwen2.5-7b-inst", "--epochs", "10"),
            (4, 5, 6, 7),
        ),
        JobLine(
            4,
            2,
            "/data3/experiments/inference.py",
            "",
            ("--model", "large", "--batch_size", "32"),
        ),
    )


@pytest.mark.parametrize(
    ("text", "args", "gpus"),
    [
        ("1,a.py,,--x,4,5,6", ("--x",), (4, 5, 6)),
        ("1,a.py,,--x,0-1,4", ("--x",), (0, 1, 4)),
        ('1,a.py,,--x,"4,5"', ("--x",), (4, 5)),
        ('1,a.py,,"--layers 1,2,3",7', ("--layers", "1,2,3"), (7,)),
        ("1,a.py,,--layers 1,2,3,", ("--layers", "1,2,3"), ()),
        ("1,a.py,,--x 'a b'", ("--x", "a b"), ()),
        ("1,a.py,env", (), ()),
        ("1,a.py", (), ()),
        ("1,a.py,,,2", (), (2,)),
        (" 1 , a.py , , --x , 3 ", ("--x",), (3,)),
    ],
)
def test_arguments_and_gpus_are_told_apart(text, args, gpus):
    line = only(text)
    assert (line.script, line.args, line.gpus) == ("a.py", args, gpus)


def test_comments_empty_lines_and_windows_line_ends_say_nothing():
    read = parse_jobs_file(b"\xef\xbb\xbf# head\r\n\r\n  \r\n1,a.py\r\n")
    assert [line.number for line in read.lines] == [4]
    assert read.bad == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("7,a.py", "priority must be 0 (high), 1 (normal) or 2 (low), not '7'"),
        ("high,a.py", "not 'high'"),
        ("1", "too few columns"),
        ("1,,env", "names no script"),
        ("1,a.py,,--x,0-x", "allowed GPUs must be like 0-3 or 4,5,6 or b/0-3 or empty, not '0-x'"),
        ("1,a.py,,--x,3-1", "3 is above 1; write 1-3"),
        ("1,a.py,,--x,0-99999", "has more than 4096 GPUs"),
        ("1,a.py,,--x 'open", "no closing quotation"),
        ("1,a.py,--x y", "is a comma missing"),
        ("1,a\0.py", "characters that are not text"),
    ],
)
def test_a_bad_line_is_told_what_is_wrong(text, words):
    assert words in problem(text)


def test_a_bad_line_stops_no_other_and_keeps_its_number():
    read = parse_jobs_file(b"0,a.py\n9,b.py\n\xff\xfe\n2,c.py\n")
    assert [(line.number, line.script) for line in read.lines] == [(1, "a.py"), (4, "c.py")]
    assert [bad.number for bad in read.bad] == [2, 3]
    assert read.bad[1] == BadLine(3, "is not UTF-8 text")


def test_the_digest_is_of_the_content_and_not_of_the_spelling():
    assert only("1,a.py,,--x  1,0-2").digest == only(" 1, a.py,, --x 1 , 0,1,2").digest
    different = [only(text).digest for text in ("1,a.py", "0,a.py", "1,a.py,e", "1,a.py,,,0")]
    assert len(set(different)) == 4


def test_the_same_line_twice_is_one_job():
    read = parse_jobs_file(b"1,a.py\n1,b.py\n1, a.py\n")
    assert [line.script for line in read.lines] == ["a.py", "b.py"]
    assert read.repeats == ((3, 1),)


@given(st.binary(max_size=300))
def test_no_content_makes_the_parser_fail(content):
    read = parse_jobs_file(content)
    numbers = [line.number for line in read.lines] + [bad.number for bad in read.bad]
    assert len(numbers) == len(set(numbers))


def test_no_gpus_allow_all():
    assert parse_gpus("  ") == ()
