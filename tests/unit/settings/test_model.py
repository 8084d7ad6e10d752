"""The database in the settings, and tenants as the core wants them."""

import json

import pytest

from tgpu.core.model.tenant import Budget, OverBudget, Tier, Window
from tgpu.settings import DatabaseSettings, SettingsError, TenantSettings, load_settings
from tgpu.settings.model import QuotaSettings

NOBODY = {"HOME": "/home/nobody"}


def database(**given: object) -> DatabaseSettings:
    flags = {f"database.{name}": value for name, value in given.items()}
    return load_settings(None, flags, NOBODY).database


def problem(**given: object) -> str:
    with pytest.raises(SettingsError) as caught:
        database(**given)
    (only,) = caught.value.problems
    return only


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, "sqlite"),
        ({"host": "db"}, "postgresql"),
        ({"url": "postgresql://db/jobs"}, "postgresql"),
        ({"kind": "postgresql", "host": "db"}, "postgresql"),
        ({"kind": "memory"}, "memory"),
    ],
)
def test_a_host_or_an_address_chooses_postgresql(given, kind):
    assert database(**given).kind == kind


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"host": "db"}, "postgresql://db:5432/gpu_scheduler?sslmode=prefer"),
        (
            {"host": "db", "user": "a b", "password": "p@:/ss?", "database": "x&y"},
            "postgresql://a%20b:p%40%3A%2Fss%3F@db:5432/x%26y?sslmode=prefer",
        ),
        (
            {"host": "/run/postgresql", "user": "u"},
            "postgresql://u@%2Frun%2Fpostgresql:5432/gpu_scheduler?sslmode=prefer",
        ),
        ({"host": "::1"}, "postgresql://[::1]:5432/gpu_scheduler?sslmode=prefer"),
        ({"url": "postgresql://u:p@db/jobs"}, "postgresql://u:p@db/jobs"),
        ({"url": "postgres://db/jobs", "password": "a&b"}, "postgres://db/jobs?password=a%26b"),
        (
            {"url": "postgresql://db/jobs?connect_timeout=3", "sslmode": "require"},
            "postgresql://db/jobs?connect_timeout=3&sslmode=require",
        ),
    ],
)
def test_the_parts_become_one_address(given, url):
    assert database(**given).postgres_url() == url


def test_the_driver_reads_the_address_as_it_was_meant():
    conninfo = pytest.importorskip("psycopg.conninfo")
    given = {"host": "db", "port": 5433, "user": "a b", "password": "p@:/ss?&", "database": "x/y"}
    read = conninfo.conninfo_to_dict(database(**given).postgres_url())
    assert read == {
        "host": "db",
        "port": "5433",
        "user": "a b",
        "password": "p@:/ss?&",
        "dbname": "x/y",
        "sslmode": "prefer",
    }


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"kind": "postgresql"}, "neither host nor url says where it is"),
        ({"kind": "sqlite", "host": "db"}, "kind is sqlite, and host is for postgresql only"),
        ({"kind": "memory", "url": "postgresql://db"}, "kind is memory, and url is for postgresql"),
        ({"url": "postgresql://db/jobs", "port": 1}, "url and port are both set"),
        ({"url": "mysql://root:secret@db"}, "url must be written as postgresql://"),
    ],
)
def test_a_database_that_is_named_twice_or_not_at_all_is_refused(given, sentence):
    found = problem(**given)
    assert sentence in found
    assert "secret" not in found


@pytest.mark.parametrize("name", ["password", "url"])
def test_a_secret_is_shown_neither_by_a_mistake_nor_by_the_settings(name):
    assert "12345" not in problem(host="db", **{name: 12345})
    assert "hunter2" not in repr(database(url="postgresql://u:hunter2@db"))


def test_a_section_with_a_secret_that_is_none_is_not_shown(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("database: hunter2")
    with pytest.raises(SettingsError) as caught:
        load_settings(file, {}, NOBODY)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_tenant_of_the_file_has_tier_weight_and_switches():
    tenant = TenantSettings(
        tenant_id="t",
        name="Team",
        priority_tier="high",
        fair_share_weight=0.5,
        allow_preemption=False,
        enforce_quota=False,
    ).to_tenant()
    assert (tenant.name, tenant.tier, tenant.weight_millis) == ("Team", Tier.HIGH, 500)
    assert (tenant.allow_preemption, tenant.enforce_quota) == (False, False)


def test_a_weight_of_nothing_is_refused():
    with pytest.raises(SettingsError, match=r"must be a number from 0\.001 to 1000"):
        load_settings(None, {"tenants": [{"tenant_id": "t", "fair_share_weight": 0}]}, NOBODY)


def test_a_tenant_s_cohort_and_budget_are_those_of_the_core():
    tenant = TenantSettings.model_validate(
        {
            "tenant_id": "vision",
            "cohort": "science",
            "max_borrow_gpus": 1.5,
            "max_lend_gpus": 0,
            "budget": {"gpu_hours": 0.5, "window": "day", "action": "stop"},
        }
    ).to_tenant()
    assert (tenant.cohort, tenant.borrow_millis, tenant.lend_millis) == ("science", 1500, 0)
    assert tenant.budget == Budget(1_800_000_000, Window.DAY, OverBudget.STOP)


def test_a_budget_of_money_is_gpu_time_at_its_price():
    tenant = TenantSettings.model_validate({"tenant_id": "t", "budget": {"cost": 10}})
    assert tenant.to_tenant(cost_per_gpu_hour=2.5).budget == Budget(4 * 3_600_000_000)


@pytest.mark.parametrize(
    ("budget", "billing", "sentence"),
    [
        ({"cost": 10}, {}, "the budget of 't' is money, and GPU time has no price"),
        ({}, {}, "must have one of gpu_hours and cost"),
        ({"cost": 1, "gpu_hours": 1}, {"cost_per_gpu_hour": 1}, "must have one of gpu_hours"),
        ({"gpu_hours": 0}, {}, "tenants[0].budget.gpu_hours must be a number above 0"),
        ({"gpu_hours": 1, "window": "year"}, {}, "must be one of day, week, month, total"),
        ({"gpu_hours": 1, "hours": 1}, {}, "hours"),
    ],
)
def test_a_budget_that_cannot_be_is_refused(tmp_path, budget, billing, sentence):
    file = tmp_path / "settings.json"
    content = {"tenants": [{"tenant_id": "t", "budget": budget}], "billing": billing}
    file.write_text(json.dumps(content))
    with pytest.raises(SettingsError) as caught:
        load_settings(file, {}, NOBODY)
    assert sentence in caught.value.problems[0]


def test_labels_are_a_section_of_texts():
    assert load_settings(None, {"devices.labels": {"rack": "r1"}}, NOBODY).devices.labels == {
        "rack": "r1"
    }
    for odd in ({"a b": "x"}, {"rack": 1}, ["rack"]):
        with pytest.raises(SettingsError, match=r"devices\.labels"):
            load_settings(None, {"devices.labels": odd}, NOBODY)


def test_labels_of_the_environment_are_json():
    environ = NOBODY | {"GPU_SCHEDULER_DEVICES_LABELS": "rack=r1"}
    with pytest.raises(SettingsError, match=r"devices\.labels must be an object written as JSON"):
        load_settings(None, {}, environ)


def test_bounds_of_borrowing_limits_the_wrong_way_round_are_refused():
    with pytest.raises(ValueError, match="adjust_min_borrow that is not above adjust_max_borrow"):
        QuotaSettings(adjust_min_borrow=9, adjust_max_borrow=8)
