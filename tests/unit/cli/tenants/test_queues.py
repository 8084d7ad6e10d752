"""tgpu queues and tgpu quota: what is sent, what is shown."""

import json

import pytest

from tests.unit.cli.fake_tenants import QUEUE, QUOTA, FakeTenants
from tgpu.cli import connect

AIMS = ["shortest", "30m00s", "hold"]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeTenants:
    fake = FakeTenants()
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: fake.client())
    return fake


def test_the_list_shows_order_cap_and_state(tgpu, service):
    _, row = tgpu("queues", "list", "--tenant", "research").out.splitlines()
    assert row.split() == ["research", "night", "-10", "1", "of", "4", "7", *AIMS, "disabled"]
    assert service.requests == [("GET", "/queues?project_id=research")]


def test_the_list_as_json_is_what_the_service_said(tgpu):
    assert json.loads(tgpu("queues", "list", "--json").out) == [QUEUE]


def test_create_sends_the_queue(tgpu, service):
    outcome = tgpu(
        *("queues", "create", "night", "--tenant", "research", "--priority", "-10"),
        *("--max-jobs", "4", "--disabled"),
    )
    assert outcome.code == 0
    assert service.bodies == [
        {
            "project_id": "research",
            "name": "night",
            "priority": -10,
            "max_concurrent_jobs": 4,
            "enabled": False,
        }
    ]


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (["--enable"], {"enabled": True}),
        (["--disable"], {"enabled": False}),
        (["--priority", "0"], {"priority": 0}),
        (["--max-jobs", "none"], {"max_concurrent_jobs": None}),
        (["--policy", "shortest"], {"policy": "shortest"}),
        (["--policy", "none"], {"policy": ""}),
        (["--wait-target", "30m"], {"wait_target_seconds": 1800}),
        (["--wait-target", "none"], {"wait_target_seconds": None}),
        (["--idle-action", "end"], {"idle_action": "end"}),
    ],
)
def test_change_sends_only_what_was_given(tgpu, service, options, body):
    assert tgpu("queues", "change", "night", "--tenant", "research", *options).code == 0
    assert service.requests == [("PATCH", "/queues/research%3Anight")]
    assert service.bodies == [body]


def test_who_names_no_tenant_means_their_own(tgpu, service, monkeypatch):
    service.mine = "vision"
    assert tgpu("queues", "remove", "night").code == 0
    assert tgpu("queues", "create", "night").code == 0
    assert service.bodies[-1]["project_id"] == "vision"
    monkeypatch.setenv("TGPU_TENANT", "speech")
    assert tgpu("quota", "show").code == 0
    assert [path for _, path in service.requests] == [
        "/queues/vision%3Anight",
        "/queues",
        "/queues/quota/speech",
    ]


def test_remove_names_the_queue_of_the_default_tenant(tgpu, service):
    outcome = tgpu("queues", "remove", "night")
    assert outcome.out == "queue night of tenant default is removed\n"
    assert service.requests == [("DELETE", "/queues/default%3Anight")]
    assert json.loads(tgpu("queues", "remove", "night", "--json").out)["removed"] is True


def test_a_queue_that_is_not_empty_is_code_five(tgpu, service):
    service.refusal = (409, "CONFLICT", "queue night of tenant default has 3 jobs")
    outcome = tgpu("queues", "remove", "night")
    assert (outcome.code, outcome.out) == (5, "")
    assert "has 3 jobs" in outcome.err


def test_the_quota_shows_used_limit_and_free(tgpu):
    outcome = tgpu("quota", "show", "research")
    rows = [line.split() for line in outcome.out.splitlines()]
    assert rows[1] == ["GPUs", "4.5", "16", "11.5", "28%"]
    assert rows[2] == ["CPU", "cores", "8", "no", "limit"]
    assert rows[3] == ["memory", "GiB", "128", "512", "384", "25%"]
    assert "not enforced" in outcome.err
    assert "ldap" in outcome.err


def test_the_quota_as_json_is_what_the_service_said(tgpu):
    assert json.loads(tgpu("quota", "show", "research", "--json").out) == QUOTA


def test_set_sends_cores_gibibytes_and_gpus(tgpu, service):
    options = ["--gpus", "8", "--cpus", "64", "--mem", "512G", "--enforce"]
    assert tgpu("quota", "set", "research", *options).code == 0
    assert service.requests == [("PATCH", "/queues/quota/research")]
    assert service.bodies == [
        {"gpu_quota": 8, "cpu_quota": 64, "memory_quota": 512, "enforce_quota": True}
    ]
    tgpu("quota", "set", "research", "--gpus", "none")
    assert service.bodies[1] == {"gpu_quota": None}


@pytest.mark.parametrize(
    "arguments",
    [
        ["queues", "change", "night"],
        ["queues", "change", "night", "--max-jobs", "some"],
        ["quota", "set", "research"],
        ["quota", "set", "research", "--mem", "lots"],
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(tgpu, service, arguments):
    assert tgpu(*arguments).code == 2
    assert service.requests == []


@pytest.mark.parametrize(
    "words",
    [
        *(["queues", command] for command in ("list", "create", "change", "remove")),
        *(["quota", command] for command in ("show", "set")),
    ],
    ids=" ".join,
)
def test_every_command_has_help_with_examples(tgpu, words):
    out = tgpu(*words, "--help").out
    assert f"tgpu {' '.join(words)}" in out.partition("Examples")[2]


def test_users_of_a_tenant_are_shown_with_what_they_have(tgpu):
    shown = tgpu("quota", "user", "research").out
    assert shown == (
        "each user: 4 GPUs and 10 jobs at once, 24 GPU-hours a day\n"
        "USER      GPUS  JOBS  GPU-HOURS TODAY\n"
        "ada   4.5 of 8     3        1.25 of 1  own limits\n"
    )
    assert shown in tgpu("quota", "show", "research").out
    assert json.loads(tgpu("quota", "user", "research", "--json").out)["users"] == QUOTA["users"]


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["--gpus", "4"], {"user_limits": {"max_gpus": 4.0}}),
        (["ada", "--jobs", "2"], {"users": {"ada": {"max_concurrent_jobs": 2}}}),
        (["ada", "--hours-a-day", "none"], {"users": {"ada": {"max_gpu_hours_per_day": None}}}),
        (["ada", "--default"], {"users": {"ada": None}}),
    ],
)
def test_limits_of_users_are_sent_as_they_were_given(tgpu, service, words, body):
    assert tgpu("quota", "user", "research", *words).code == 0
    assert service.bodies == [body]
    assert service.requests == [("PATCH", "/tenants/research/users")]


@pytest.mark.parametrize("words", [["--default"], ["ada", "--default", "--gpus", "1"]])
def test_default_names_one_user_and_no_limits(tgpu, words):
    refused = tgpu("quota", "user", "research", *words)
    assert refused.code == 2
    assert "name the user" in refused.err
