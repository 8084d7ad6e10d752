"""list, show, why, logs, wait, cancel, hold, priority, rerun against the fake service."""

import json

import pytest

from tests.unit.cli.builders import a_job, a_reason, a_running_job, an_ended_job
from tests.unit.cli.fake_service import a_folded_job
from tgpu.cli import environment


def test_piped_lists_are_plain_and_whole(tgpu, service):
    reason = a_reason("needs 4 A100; 3 free, 1 of them paused, and quite a long explanation")
    service.add(a_running_job("3"), a_job("4", name="n" * 60, reason=reason))
    out = tgpu("list").out
    assert "\x1b" not in out
    assert "n" * 60 in out
    assert out.rstrip().endswith("quite a long explanation")


def test_list_json_is_the_api_s_list(tgpu, service):
    service.add(a_running_job("3"))
    assert [job["job_id"] for job in json.loads(tgpu("list", "--json").out)["jobs"]] == ["3"]


def test_only_the_last_ten_ended_jobs_are_shown(tgpu, service):
    service.add(*(an_ended_job(str(n)) for n in range(12)))
    outcome = tgpu("list")
    assert len(outcome.out.splitlines()) == 11
    assert "tgpu list --all" in outcome.err
    assert len(tgpu("list", "--all").out.splitlines()) == 13


def test_a_long_queue_does_not_hide_what_runs(tgpu, service):
    service.add(a_running_job("1"), *(a_job(str(n)) for n in range(2, 6)))
    outcome = tgpu("list", "--limit", "3")
    assert [line.split()[0] for line in outcome.out.splitlines()[:2]] == ["JOB", "1"]
    assert len(outcome.out.splitlines()) == 4
    assert "tgpu list --all" in outcome.err


def test_a_list_ends_with_counts(tgpu, service):
    service.add(a_running_job("1"), a_job("2"))
    assert tgpu("list").err == "1 running, 1 waiting, 0 over; 5 of 8 GPUs in use\n"
    assert tgpu("list", "--state", "running").err.startswith("in all: 1 running")


def test_arrays_are_folded_unless_all_is_asked_for(tgpu, service):
    service.add(a_folded_job("2", completed=120, running=5, pending=75))
    assert "120/200 done, 5 running" in tgpu("list").out
    assert [query.get("fold") for query in service.lists] == ["true"] * 3
    service.lists.clear()
    tgpu("list", "--expand")
    tgpu("list", "--json")
    tgpu("list", "--array", "2")
    assert {query.get("fold") for query in service.lists} == {None}
    service.lists.clear()
    tgpu("list", "--json", "--fold")
    assert {query.get("fold") for query in service.lists} == {"true"}


def test_an_array_that_goes_on_is_not_among_those_that_ended(tgpu, service):
    """Its elements are in several states, so each of the questions finds it."""
    array = a_folded_job("2", completed=120, running=5, pending=75)
    service.add(
        *(array.model_copy(update={"state": s, "job_id": s}) for s in ("running", "failed"))
    )
    service.add(an_ended_job("1"))
    rows = [line.split()[0] for line in tgpu("list").out.splitlines()]
    assert rows == ["JOB", "2.[1-200]", "1"]


def test_columns_are_chosen_and_checked(tgpu, service):
    service.add(a_running_job("1"))
    assert tgpu("list", "--columns", "user, JOB").out.splitlines() == ["USER  JOB", "ada   1"]
    outcome = tgpu("list", "--columns", "job,colour")
    assert outcome.code == 2
    assert "'colour'" in outcome.err
    assert "reason" in outcome.err


def test_an_empty_list_says_how_to_begin(tgpu):
    outcome = tgpu("list")
    assert outcome.code == 0
    assert "tgpu submit" in outcome.err


@pytest.mark.parametrize("option", ["--state", "--status"])
def test_states_are_filtered_and_checked(tgpu, service, option):
    service.add(a_job("1"), a_running_job("2"))
    assert [line[0] for line in tgpu("list", option, "running").out.splitlines()] == ["J", "2"]
    outcome = tgpu("list", option, "sleeping")
    assert outcome.code == 2
    assert "pending" in outcome.err


def test_old_spellings_work(tgpu, service):
    service.add(a_running_job("2"))
    assert tgpu("list-jobs", "--status", "running").code == 0
    assert tgpu("cancel-job", "2").code == 0


def test_last_names_the_newest_job(tgpu, service):
    service.add(a_job("1"), a_job("2"))
    assert tgpu("show", "last").out.startswith("job        2\n")


def test_why_answers_with_the_reason_and_a_command(tgpu, service):
    service.add(a_job("1", reason=a_reason("needs 4 A100; 3 free")))
    assert tgpu("why", "1").out == "job 1 waits: needs 4 A100; 3 free\n  next: tgpu gpus\n"


@pytest.mark.parametrize("command", ["cancel", "hold", "release"])
def test_several_jobs_are_one_request_and_one_line(tgpu, service, command):
    outcome = tgpu(command, "1", "7", "last")
    assert (outcome.code, outcome.out) == (0, f"{command}: ['1', '7', 'last']\n")
    assert service.requests == [("POST", "/jobs/select")]
    assert service.bodies == [{"action": command, "jobs": ["1", "7", "last"]}]


def test_what_came_of_a_selection_is_one_object_in_json(tgpu, service):
    assert json.loads(tgpu("cancel", "1", "--json").out)["changed"] == 1


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (["--all"], {"all": True, "mine": True, "user": "me"}),
        (["--all-pending"], {"states": ["pending"], "mine": True, "user": "me"}),
        (["--state", "pending,running"], {"states": ["pending", "running"], "mine": True}),
        (["--name", "sweep", "--user", "ada"], {"name": "sweep", "user": "ada"}),
        (["--user", "*"], {"all": True}),
        (["--tenant", "lab"], {"tenant_id": "lab", "mine": True}),
        (["7", "--state", "pending"], {"jobs": ["7"], "states": ["pending"]}),
    ],
)
def test_conditions_choose_among_ones_own_jobs(tgpu, service, monkeypatch, options, fields):
    monkeypatch.setattr(environment, "user_name", lambda: "me")
    assert tgpu("cancel", *options).code == 0
    body = service.bodies[-1]
    assert body | fields == body
    assert ("mine" in body) == ("mine" in fields)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("cancel", "--state", "failed"), "failed jobs have ended"),
        (("cancel", "1", "--all"), "both jobs and --all"),
        (("hold",), "no job given"),
        (("priority", "8"), "priority takes jobs and then a number"),
        (("priority", "8", "high"), "'high' is not a priority: a whole number"),
    ],
)
def test_a_selection_that_cannot_be_is_refused(tgpu, service, arguments, complaint):
    outcome = tgpu(*arguments)
    assert outcome.code == 2
    assert complaint in outcome.err
    assert service.requests == []


@pytest.mark.parametrize("arguments", [("cancel",), ("rerun",), ("cancel", "1", "--all-pending")])
def test_jobs_or_the_flag_but_not_both_and_not_none(tgpu, arguments):
    assert tgpu(*arguments).code == 2


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (["7"], {"jobs": ["7"]}),
        (["7", "--again"], {"jobs": ["7"], "again": True}),
        (["7", "--state", "cancelled"], {"jobs": ["7"], "states": ["cancelled"]}),
        (["--failed"], {"all": True, "mine": True}),
        (["--failed", "--since", "1h"], {"ended_within_seconds": 3600}),
        (["--failed", "--failure", "xid,node"], {"failures": ["node", "xid"]}),
    ],
)
def test_a_rerun_is_one_request(tgpu, service, options, fields):
    assert tgpu("rerun", *options).code == 0
    (body,) = service.bodies
    assert body | fields == body


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--failed", "--failure", "bad luck"), "'bad luck' is not a kind of failure: user_error"),
        (("--failed", "--since", "5"), "has no unit"),
        (("1", "--since", "5m"), "choose among failed jobs"),
    ],
)
def test_a_choice_among_failures_that_cannot_be_is_refused(tgpu, arguments, complaint):
    outcome = tgpu("rerun", *arguments)
    assert outcome.code == 2
    assert complaint in outcome.err


def test_logs_keep_the_two_streams_apart(tgpu, service):
    service.add(an_ended_job("1"))
    service.logs = {("1", "stdout"): b"out\n", ("1", "stderr"): b"err\n"}
    outcome = tgpu("logs", "1")
    assert (outcome.out, outcome.err) == ("out\n", "err\n")
    assert tgpu("logs", "1", "--stderr").out == ""


def test_logs_end_with_the_lines_asked_for(tgpu, service):
    service.add(an_ended_job("1"))
    service.logs = {("1", "stdout"): b"a\nb\nc\n"}
    assert tgpu("logs", "1", "--tail", "2").out == "b\nc\n"
    assert tgpu("logs", "1", "-f", "--tail", "1").out == "c\n"


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (a_job("1", reason=a_reason("on hold")), "has not started yet: on hold"),
        (a_job("1", command=[]), "is a lease"),
        (a_job("1", state="cancelled"), "was cancelled before it started"),
    ],
)
def test_a_job_without_a_log_says_why(tgpu, service, job, says):
    service.add(job)
    outcome = tgpu("logs", "1")
    assert outcome.code == 4
    assert says in outcome.err


def test_an_attempt_that_never_was_is_bad_input(tgpu, service):
    service.add(an_ended_job("1"))
    assert tgpu("logs", "1", "--attempt", "2").code == 2


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([("completed", 0)], 0),
        ([("failed", 3)], 3),
        ([("completed", 0), ("failed", 5), ("failed", 6)], 5),
        ([("cancelled", None)], 143),
    ],
)
def test_wait_returns_the_first_code_that_is_not_zero(tgpu, service, states, code):
    ids = [str(n) for n in range(len(states))]
    for job_id, (state, exit_code) in zip(ids, states, strict=True):
        service.add(an_ended_job(job_id, state=state, exit_code=exit_code))
    assert tgpu("wait", *ids).code == code


def test_wait_gives_up_at_its_timeout(tgpu, service):
    service.add(a_running_job("1"))
    outcome = tgpu("wait", "1", "--timeout", "0.01s")
    assert outcome.code == 124
    assert "still running" in outcome.err


def test_wait_for_a_bare_number_is_refused(tgpu):
    outcome = tgpu("wait", "1", "--timeout", "30")
    assert outcome.code == 2
    assert "30s" in outcome.err


@pytest.mark.parametrize("number", [900, -5])
def test_the_last_word_is_the_priority_of_all_the_jobs_before_it(tgpu, service, number):
    assert tgpu("priority", "7", "8", str(number)).code == 0
    assert service.bodies == [{"action": "priority", "jobs": ["7", "8"], "priority": number}]
