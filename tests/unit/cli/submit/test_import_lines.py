"""Files of other queues, read as jobs."""

import pytest

from tgpu.cli.submit.import_lines import ImportedJob, is_listing, read_commands, read_listing

LISTING = """ID   State      Output               E-Level  Time   Command [run=1/1]
3    running    /tmp/ts-out.EVQwR5                   sleep 1000
4    queued     (file)                               python train.py --lr 0.1
5    queued     (file)                               [4]&& [eval]python eval.py
6    queued     (file)                               [3]&& python late.py
7    queued     (file)                               && ./next.sh
0    finished   /tmp/ts-out.4V4dFb   0        0.00s  ls -la
1    finished   /tmp/ts-out.vVl3Lx   1        1.20m  false
"""


def commands(text: str, *, by_shell: bool = False) -> list[ImportedJob]:
    found = read_commands(text, by_shell=by_shell)
    assert found.mistakes == []
    return found.jobs


def mistake(line: str) -> str:
    found = read_commands(f"true\n{line}\n", by_shell=False)
    assert len(found.jobs) == 1
    (only,) = found.mistakes
    return only


def test_each_line_is_a_command_and_comments_are_none():
    jobs = commands("# first\npython a.py --x 'a b'\n\n  # second\n./b.sh\n")
    assert [(job.line, job.command) for job in jobs] == [
        (2, ("python", "a.py", "--x", "a b")),
        (5, ("./b.sh",)),
    ]


def test_our_words_and_variables_may_stand_before_it():
    (job,) = commands("gpus=0.5 name='my run' SEED=1 time=2h priority=9 python x.py lr=3")
    assert (job.gpus, job.name, job.time, job.priority) == ("0.5", "my run", "2h", 9)
    assert job.env == ("SEED=1",)
    assert job.command == ("python", "x.py", "lr=3")


@pytest.mark.parametrize(
    ("line", "character"),
    [
        ("a | b", "|"),
        ("a && b", "&"),
        ("echo $HOME", "$"),
        ('echo "$HOME"', "$"),
        ("ls *.py", "*"),
        ("ls ~/x", "~"),
        ("a > out", ">"),
        ("a # why", "#"),
    ],
)
def test_what_needs_a_shell_is_refused_with_its_line(line, character):
    assert mistake(line) == (f"line 2: {character} needs a shell: quote it, or import with --shell")


@pytest.mark.parametrize("line", ["echo 'a | b $x'", r"echo a\|b", "x a#b", "x a~", 'x "a*b"'])
def test_what_is_quoted_needs_none(line):
    commands(line)


def test_a_shell_gets_the_line_as_it_is():
    (job,) = commands("gpus=2 cat *.txt | sort > 'out file'", by_shell=True)
    assert (job.gpus, job.command) == ("2", ("sh", "-c", "cat *.txt | sort > 'out file'"))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("gpus=2", "there is no command after gpus=2"),
        ("echo 'open", "no closing quotation"),
        ("priority=high x", "priority=high: must be a whole number"),
    ],
)
def test_other_mistakes_are_named_too(line, problem):
    assert mistake(line) == f"line 2: {problem}"


def test_a_listing_is_told_from_commands():
    assert is_listing(LISTING)
    assert not is_listing("python train.py\n")


def test_what_waits_in_task_spooler_is_taken_with_labels_and_dependencies():
    found = read_listing(LISTING, by_shell=False)
    assert found.mistakes == []
    assert [(job.old_id, job.command, job.name, job.after) for job in found.jobs] == [
        ("4", ("python", "train.py", "--lr", "0.1"), "", ()),
        ("5", ("python", "eval.py"), "eval", ("4",)),
        ("6", ("python", "late.py"), "", ("3",)),
        ("7", ("./next.sh",), "", ("6",)),
    ]


def test_what_stays_behind_is_said():
    notes = read_listing(LISTING, by_shell=False).notes
    assert "1 running left there" in notes
    assert "2 finished left there" in notes
    assert "line 5: will not depend on 3, which is not imported" in notes


def test_the_fork_with_gpus_says_how_many():
    text = (
        "ID   State      Output               E-Level  Time   GPUs  Command [run=0/1]\n"
        "0    queued     (file)                              2     python x.py\n"
    )
    (job,) = read_listing(text, by_shell=False).jobs
    assert (job.gpus, job.command) == ("2", ("python", "x.py"))


def test_a_line_that_is_none_of_a_listing_is_a_mistake():
    found = read_listing(LISTING + "what is this\n", by_shell=False)
    assert found.mistakes == ["line 9: is not a line of task-spooler's list"]
