"""tgpu tenants: what is sent, what is shown."""

import json

import pytest

from tests.unit.cli.fake_tenants import TENANT, FakeTenants
from tgpu.cli import connect


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeTenants:
    fake = FakeTenants()
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: fake.client())
    return fake


def test_the_list_shows_use_and_limit(tgpu):
    header, row = tgpu("tenants", "list").out.splitlines()
    assert header.split() == ["TENANT", "NAME", "TIER", "GPUS", "JOBS", "GPU-HOURS", "COST"]
    assert row.split("  ")[0] == "research"
    assert "4.5 of 16" in row
    assert "3 of 20" in row
    assert "12.50" in row


def test_an_inactive_tenant_is_marked(tgpu, service):
    service.tenant["active"] = False
    assert "inactive" in tgpu("tenants", "list").out
    assert "accepts and starts no jobs" in tgpu("tenants", "show", "research").out


def test_all_facts_are_shown(tgpu):
    out = tgpu("tenants", "show", "research").out
    for words in ("ML Research Team", "4.5 of 8", "1G of 200G", "tier", "high", "12.50 GPU-hours"):
        assert words in out


@pytest.mark.parametrize("command", ["list", "show", "usage", "deactivate"])
def test_json_is_what_the_service_said(tgpu, command):
    arguments = [] if command == "list" else ["research"]
    found = json.loads(tgpu("tenants", command, *arguments, "--json").out)
    if command == "list":
        assert found == {"tenants": [TENANT]}
    elif command == "usage":
        assert found["tenant_id"] == "research"
    else:
        assert found == TENANT


def test_create_sends_what_was_given_and_nothing_else(tgpu, service):
    outcome = tgpu(
        *("tenants", "create", "ML Research Team", "--id", "research", "--max-gpus", "16"),
        *("--max-gpu-mem", "200G", "--max-cpus", "64", "--max-mem", "500G", "--max-jobs", "20"),
        *("--max-gpus-of", "A100=8", "--max-gpus-of", "H100=0.5", "--tier", "high"),
        *("--weight", "2", "--no-preemption", "--no-enforce"),
    )
    assert outcome.code == 0
    assert "tgpu submit --tenant research" in outcome.out
    assert service.bodies == [
        {
            "id": "research",
            "name": "ML Research Team",
            "max_gpus": 16,
            "max_gpu_memory_mb": 204800,
            "max_cpu_cores": 64,
            "max_memory_mb": 512000,
            "max_concurrent_jobs": 20,
            "max_gpus_by_type": {"A100": 8, "H100": 0.5},
            "priority_tier": "high",
            "fair_share_weight": 2,
            "allow_preemption": False,
            "enforce_quota": False,
        }
    ]
    tgpu("tenants", "create", "Plain")
    assert service.bodies[1] == {"name": "Plain"}


def test_change_lifts_a_limit_and_leaves_the_rest(tgpu, service):
    assert tgpu("tenants", "change", "research", "--max-gpus", "none", "--active").code == 0
    assert service.requests == [("PATCH", "/tenants/research")]
    assert service.bodies == [{"max_gpus": None, "active": True}]


def test_a_limit_of_nothing_is_a_limit(tgpu, service):
    tgpu("tenants", "change", "research", "--max-mem", "0", "--max-jobs", "0")
    assert service.bodies == [{"max_memory_mb": 0, "max_concurrent_jobs": 0}]


def test_a_change_to_a_default_is_sent_all_the_same(tgpu, service):
    tgpu("tenants", "change", "research", "--tier", "normal", "--weight", "1", "--enforce")
    assert service.bodies == [
        {"priority_tier": "normal", "fair_share_weight": 1, "enforce_quota": True}
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["change", "research"], "nothing to change"),
        (
            ["change", "research", "--max-gpus", "many"],
            "--max-gpus: 'many' is not a number of GPUs",
        ),
        (["change", "research", "--max-jobs", "1.5"], "--max-jobs: '1.5' is not a whole number"),
        (["change", "research", "--max-mem", "5"], "--max-mem: '5' has no unit"),
        (["change", "research", "--max-gpus-of", "A100"], "--max-gpus-of: 'A100' is not a limit"),
        (["change", "research", "--max-gpus", "-1"], "max_gpus"),
        (["change", "research", "--weight", "0"], "0.001"),
        (["change", "research", "--max-borrow", "x"], "--max-borrow: 'x' is not a number of GPUs"),
        (["change", "research", "--budget-hours", "x"], "--budget-hours: 'x' is not a number"),
        (["change", "research", "--budget-hours", "0"], "a budget of 0"),
        (["change", "research", "--budget-window", "day"], "the budget has no amount"),
        (["change", "r", "--budget-hours", "1", "--budget-cost", "1"], "not both"),
        (["change", "research", "--cohort", "a b"], "cohort"),
        (["create"], "NAME"),
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(tgpu, service, arguments, message):
    outcome = tgpu("tenants", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert service.requests == []


def test_deactivate_says_how_to_undo_it(tgpu, service):
    outcome = tgpu("tenants", "deactivate", "research")
    assert outcome.out == "tenant research is inactive\n"
    assert "tgpu tenants change research --active" in outcome.err
    assert service.requests == [("DELETE", "/tenants/research")]


def test_usage_shows_the_total_and_the_days(tgpu, service):
    lines = tgpu("tenants", "usage", "research", "--days", "7").out.splitlines()
    assert lines[0].startswith("research in all: 12.50 GPU-hours, 3 completed, 1 failed")
    assert lines[2].split() == ["2023-11-14", "12.50", "3", "1", "0", "25.00"]
    assert service.requests == [("GET", "/tenants/research/usage?days=7")]


def test_a_tenant_that_is_not_there_is_code_four(tgpu, service):
    service.refusal = (404, "NOT_FOUND", "no tenant named 'x'")
    outcome = tgpu("tenants", "show", "x")
    assert (outcome.code, outcome.out) == (4, "")
    assert "no tenant named 'x'" in outcome.err


@pytest.mark.parametrize("command", ["list", "show", "create", "change", "deactivate", "usage"])
def test_every_command_has_help_with_examples(tgpu, command):
    out = tgpu("tenants", command, "--help").out
    assert f"tgpu tenants {command}" in out.partition("Examples")[2]


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (
            ["--cohort", "science", "--max-borrow", "4", "--max-lend", "none"],
            {"cohort": "science", "max_borrow_gpus": 4, "max_lend_gpus": None},
        ),
        (["--cohort", "none"], {"cohort": ""}),
        (
            ["--budget-hours", "500", "--budget-window", "week", "--budget-action", "hold"],
            {"budget": {"gpu_hours": 500, "window": "week", "action": "hold"}},
        ),
        (["--budget-cost", "99.5"], {"budget": {"cost": 99.5}}),
        (["--budget-hours", "none"], {"budget": None}),
        (["--max-priority", "1500"], {"max_priority": 1500}),
        (["--members-see", "nothing"], {"members_see": "nothing"}),
    ],
)
def test_lending_and_budgets_are_sent(tgpu, service, options, body):
    assert tgpu("tenants", "change", "research", *options).code == 0
    assert service.bodies == [body]


def test_the_facts_tell_of_cohort_and_budget(tgpu):
    text = tgpu("tenants", "show", "research").out
    assert "science: borrows at most 4 GPUs, lends all it does not use" in text
    assert "500.00 GPU-hours (cost 1000.00) a month, then starts no more jobs" in text


def test_the_user_of_its_jobs_is_sent_and_taken_away(tgpu, service):
    assert "research-jobs" in tgpu("tenants", "show", "research").out
    assert tgpu("tenants", "create", "Plain", "--run-as", "plain-jobs").code == 0
    assert tgpu("tenants", "change", "research", "--run-as", "none").code == 0
    assert service.bodies == [{"name": "Plain", "run_as": "plain-jobs"}, {"run_as": ""}]


def test_a_user_can_be_made_for_its_jobs(tgpu, service):
    outcome = tgpu("tenants", "create", "Plain", "--system-user")
    assert outcome.code == 0
    assert "research-jobs" in outcome.err
    assert service.bodies == [{"name": "Plain", "system_user": True}]
    assert tgpu("tenants", "change", "research", "--system-user", "--run-as", "x").code == 2
