"""The environment a submission names: only its words are looked at."""

import os
import socket
from collections.abc import Callable
from typing import NoReturn

import pytest

from tgpu.core.errors import InvalidRequest
from tgpu.core.model.ids import TenantId
from tgpu.core.model.job import Detail, Request
from tgpu.service.commands.python_environment import checked
from tgpu.service.commands.submission import RunIn, Submission


def a_submission(run_in: RunIn, argv: tuple[str, ...] = ("true",)) -> Submission:
    detail = Detail(argv=argv, cwd="/nowhere")
    return Submission(Request(1000), TenantId("t"), detail=detail, run_in=run_in)


def refusal(run_in: RunIn, argv: tuple[str, ...] = ("true",)) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        checked(a_submission(run_in, argv))
    return caught.value


def test_the_environment_is_a_detail_of_the_job_and_its_command_stays_as_it_is() -> None:
    made = checked(a_submission(RunIn(conda="ml")))
    assert (made.run_in, made.detail.run_in) == (None, ("conda", "ml"))
    assert made.detail.argv == ("true",)


def test_no_environment_is_none() -> None:
    assert checked(a_submission(RunIn(), ())).detail.run_in is None


def test_two_environments_at_once_are_refused() -> None:
    assert "conda is given as well" in refusal(RunIn(conda="a", venv="b")).message


def test_a_lease_runs_in_no_environment() -> None:
    assert "needs a command" in refusal(RunIn(conda="ml"), ()).message


@pytest.mark.parametrize("name", ["-n", " ", "a\0b", "x" * 5000])
@pytest.mark.parametrize("kind", ["conda", "venv", "uv"])
def test_what_cannot_be_a_name_is_refused(kind: str, name: str) -> None:
    assert refusal(RunIn(**{kind: name})).field == kind


def test_no_file_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> NoReturn:
        raise AssertionError("the service looked at what a caller names")

    calls: list[tuple[object, str]] = [(os, n) for n in ("open", "stat", "access", "scandir")]
    for where, name in [*calls, (os.path, "realpath"), (os.path, "isfile"), (socket, "socket")]:
        monkeypatch.setattr(where, name, never)
    check: Callable[[Submission], Submission] = checked
    for run_in in (RunIn(conda="/etc/shadow"), RunIn(venv="/root"), RunIn(uv="~/x")):
        check(a_submission(run_in))
