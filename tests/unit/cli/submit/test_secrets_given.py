"""`--secret`: from the environment, a file or the terminal, never from the command line."""

import re
from pathlib import Path

import pytest

from tests.unit.cli.submit.options import options
from tgpu.cli.failures import Failure
from tgpu.cli.render.jobs import queued_lines
from tgpu.cli.submit.option_fields import Submitter
from tgpu.cli.submit.secrets_given import read_secrets
from tgpu.cli.submit.submission import build_request
from tgpu.wire.v1 import SubmitAnswer, SubmitRequest


def test_a_name_takes_the_value_from_the_environment() -> None:
    assert read_secrets(["A", "B"], {"A": "1", "B": "2", "C": "3"}, None) == {"A": "1", "B": "2"}


def test_a_file_gives_its_content_without_the_last_line_feed(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("two\nlines\n")
    assert read_secrets([f"A=@{tmp_path / 'key'}"], {}, None) == {"A": "two\nlines"}


def test_who_sits_at_a_terminal_is_asked_for_what_is_not_set() -> None:
    assert read_secrets(["A"], {}, lambda name: f"typed for {name}") == {"A": "typed for A"}


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("A", "A is not set here: export it first, or read it from a file with A=@FILE"),
        ("A=hunter2", "others can read the value here: write A"),
        ("E", "E is empty"),
        ("=hunter2", "the name of a secret has only letters"),
        ("hunter2 x", "the name of a secret has only letters"),
        (
            "A=@/no/such/file",
            "A cannot be read from /no/such/file: there is no such file or folder",
        ),
        ("A=@/dev/zero", "/dev/zero has more than 65536 bytes, too many for A"),
    ],
)
def test_what_cannot_be_is_refused_without_repeating_it(word: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}") as caught:
        read_secrets([word], {"E": ""}, None)
    assert "hunter2" not in str(caught.value)


def test_a_secret_is_sent_as_one_and_not_in_the_environment_as_well() -> None:
    submitter = Submitter("ann", "/home/ann", {"TOKEN": "hunter2", "PATH": "/bin"})
    request, _ = build_request(options(["x"], secret=["TOKEN"]), submitter, lambda job_id: job_id)
    assert request.secrets == {"TOKEN": "hunter2"}
    assert request.base_environment == {"PATH": "/bin"}


def test_what_is_said_of_a_queued_job_has_no_secret_in_it() -> None:
    request = SubmitRequest(command=["x", "--speed=hunter2"], secrets={"WORD": "hunter2"})
    answer = SubmitAnswer(job_id="1", job_ids=["1"], message="")
    assert queued_lines(answer, request)[0] == "job 1 queued: 1 GPU, x '--speed=******'"


def test_the_refusal_names_the_option() -> None:
    submitter = Submitter("ann", "/home/ann", {})
    with pytest.raises(Failure, match="--secret: TOKEN is not set here"):
        build_request(options(["x"], secret=["TOKEN"]), submitter, lambda job_id: job_id)
