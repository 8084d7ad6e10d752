"""Files of other schedulers: what their keys mean here, and which do nothing yet."""

import json
from pathlib import Path

import pytest

from tgpu.settings import (
    NO_EFFECT,
    SettingsError,
    all_keys,
    load_settings,
    load_with_origins,
)
from tgpu.settings.setting_aliases import IDLE, IDLE_OWN, RENAMED, setting_aliases

NOBODY = {"HOME": "/home/nobody"}
EXAMPLES = Path(__file__).parents[3] / "examples" / "config"
OUR_NAMES = {key.name for key in all_keys()}


def load_text(tmp_path, text, name="settings.yaml", environ=NOBODY):
    file = tmp_path / name
    file.write_text(text)
    return load_with_origins(file, {}, environ)


def problems(tmp_path, text, name="settings.yaml", environ=NOBODY) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_text(tmp_path, text, name, environ)
    return tuple(p.replace(f"{tmp_path}/", "") for p in caught.value.problems)


def test_no_foreign_key_is_a_setting_of_ours():
    assert set(setting_aliases()) & OUR_NAMES == set()


def test_every_other_name_leads_to_a_setting():
    assert {key.to for key in RENAMED} <= OUR_NAMES
    assert set(IDLE_OWN) <= OUR_NAMES


def test_the_multi_tenant_example_is_a_service_on_postgresql():
    loaded = load_with_origins(EXAMPLES / "multi-tenant.yaml", {}, NOBODY)
    settings = loaded.settings
    assert settings.scheduler.max_queue_size == 10_000
    assert (settings.api.http_port, settings.api.grpc_port) == (8080, 9090)
    assert settings.database.kind == "postgresql"
    assert settings.database.postgres_url() == (
        "postgresql://postgres:gpu123@localhost:5433/gpu_scheduler?sslmode=disable"
    )
    assert loaded.without_effect == ()
    assert settings.scheduler.enable_preemption
    assert loaded.settings.scheduler.thermal_threshold == 75


def test_the_variables_of_the_multi_tenant_example_override_it():
    environ = {"GPU_SCHEDULER_DATABASE_PASSWORD": "new", "GPU_SCHEDULER_DATABASE_PORT": "5434"}
    environ["GPU_SCHEDULER_API_HTTP_PORT"] = "8081"
    settings = load_settings(EXAMPLES / "multi-tenant.yaml", {}, NOBODY | environ)
    assert settings.database.port == 5434
    assert settings.database.password is not None
    assert settings.database.password.get_secret_value() == "new"
    assert settings.api.http_port == 8081


def test_the_one_box_example_means_the_same_here():
    loaded = load_with_origins(EXAMPLES / "one-box.json", {}, NOBODY)
    settings = loaded.settings
    assert settings.devices.expected_gpus == 8
    assert settings.devices.monitor_interval_seconds == 5
    assert settings.scheduler.max_queue_size == 1000
    assert settings.api.shutdown_seconds == 30
    assert settings.logging.format == "json"
    assert settings.logging.file == EXAMPLES / "gpu_scheduler.log"
    assert (settings.logging.max_size_mb, settings.logging.backup_count) == (100, 5)
    assert settings.api.metrics_port == 9091


def test_every_key_of_the_one_box_example_is_ours_or_is_named_as_without_effect():
    content = json.loads((EXAMPLES / "one-box.json").read_text())
    given = {f"{section}.{leaf}" for section, keys in content.items() for leaf in keys}
    loaded = load_with_origins(EXAMPLES / "one-box.json", {}, NOBODY)
    idle = {found.name for found in loaded.without_effect}
    assert given - idle - OUR_NAMES == {key.name for key in RENAMED} & given
    assert idle == given & {key.name for key in IDLE}


def test_the_origin_of_another_name_is_its_place_and_the_name(tmp_path):
    loaded = load_text(tmp_path, "jobs:\n  queue_size_limit: 7\n")
    assert loaded.origins == {
        "scheduler.max_queue_size": f"{tmp_path}/settings.yaml, line 2 (jobs.queue_size_limit)"
    }


@pytest.mark.parametrize(
    ("text", "log_format", "metrics_port"),
    [
        ("{structured: true}", "json", 9091),
        ("{structured: false, metrics_enabled: true}", "console", 9091),
        ("{metrics_enabled: false}", "console", 0),
    ],
)
def test_switches_of_the_log_become_our_words(tmp_path, text, log_format, metrics_port):
    settings = load_text(tmp_path, f"logging: {text}").settings
    assert (settings.logging.format, settings.api.metrics_port) == (log_format, metrics_port)


def test_a_part_of_a_megabyte_is_rounded_up(tmp_path):
    assert load_text(tmp_path, "logging: {max_log_size_mb: 0.5}").settings.logging.max_size_mb == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "scheduler: {thermal_threshold: hot}",
            "scheduler.thermal_threshold must be a number from 0 to 150, not 'hot'",
        ),
        (
            "scheduler: {thermal_threshold: 1000}",
            "scheduler.thermal_threshold must be a number from 0 to 150, not 1000",
        ),
        (
            "scheduler: {max_workers: -1}",
            "scheduler.max_workers must be a whole number from 0 to 1000000000, not -1",
        ),
        (
            "scheduler: {enable_preemption: 7}",
            "scheduler.enable_preemption must be true or false, not 7",
        ),
        ("logging: {structured: maybe}", "logging.structured must be true or false, not 'maybe'"),
        (
            "security: {allowed_script_paths: /tmp}",
            "security.allowed_script_paths must be a list, not '/tmp'",
        ),
        (
            "gpu: {monitor_interval: 5}",
            "gpu.monitor_interval is not a setting; did you mean gpu.monitor_interval_s?",
        ),
        (
            "scheduler: {enable_premption: true}",
            "scheduler.enable_premption is not a setting; did you mean "
            "scheduler.enable_preemption?",
        ),
        ("gpu: 5", "gpu must be a section with keys of its own, not 5"),
    ],
)
def test_a_mistake_in_a_foreign_key_is_refused_like_any_other(tmp_path, text, problem):
    assert problems(tmp_path, text) == (f"settings.yaml, line 1: {problem}",)


def test_a_wrong_value_under_another_name_names_both(tmp_path):
    assert problems(tmp_path, "gpu: {monitor_interval_s: 0}") == (
        "settings.yaml, line 1 (gpu.monitor_interval_s): devices.monitor_interval_seconds must be "
        "a number from 0.1 to 3600, not 0",
    )


def test_two_names_for_one_key_in_a_file_are_refused(tmp_path):
    text = "jobs: {queue_size_limit: 5}\nscheduler: {max_queue_size: 6}"
    assert problems(tmp_path, text) == (
        "settings.yaml, line 1: jobs.queue_size_limit is another name for "
        "scheduler.max_queue_size, which is there as well: leave one of them out",
    )


def test_foreign_keys_can_be_set_by_variables(tmp_path):
    environ = NOBODY | {
        "GPU_SCHEDULER_SCHEDULER_MAX_WORKERS": "4",
        "GPU_SCHEDULER_JOBS_QUEUE_SIZE_LIMIT": "12",
        "GPU_SCHEDULER_FILES_STATE_FILE": "state.json",
    }
    loaded = load_with_origins(None, {}, environ)
    assert loaded.settings.scheduler.max_queue_size == 12
    assert {(idle.name, idle.origin) for idle in loaded.without_effect} == {
        ("scheduler.max_workers", "GPU_SCHEDULER_SCHEDULER_MAX_WORKERS"),
        ("files.state_file", "GPU_SCHEDULER_FILES_STATE_FILE"),
    }


def test_settings_of_a_provider_that_is_not_there_are_named_and_its_token_is_not(tmp_path):
    environ = NOBODY | {"EXECUTOR_SLURM_AUTH_TOKEN": "hunter2", "SLURM_ACCOUNT_PREFIX": "p-"}
    loaded = load_with_origins(None, {}, environ)
    assert {idle.name: idle.value for idle in loaded.without_effect} == {
        "quota.slurm_account_prefix": "p-",
        "quota.slurm_auth_token": "********",
    }


def test_the_reference_names_every_foreign_key_and_what_is_said_of_it():
    reference = (EXAMPLES.parents[1] / "docs" / "reference" / "settings.md").read_text()
    assert [
        name for name in (*setting_aliases(), *IDLE_OWN) if f"- `{name}`" not in reference
    ] == []
    assert NO_EFFECT in reference


def test_an_old_name_is_accepted_and_said_to_be_old(tmp_path):
    file = tmp_path / "old.yaml"
    file.write_text("scheduler:\n  passing: strict\n")
    loaded = load_with_origins(file, {}, NOBODY)
    assert loaded.settings.scheduler.backfill == "strict"
    assert [old.sentence() for old in loaded.old_names] == [
        "scheduler.passing is the old name of scheduler.backfill"
    ]
    environ = NOBODY | {"GPU_SCHEDULER_SCHEDULER_PASSING": "greedy"}
    assert load_settings(None, {}, environ).scheduler.backfill == "greedy"


def test_the_old_name_beside_the_new_one_is_refused(tmp_path):
    file = tmp_path / "both.yaml"
    file.write_text("scheduler:\n  passing: strict\n  backfill: easy\n")
    with pytest.raises(SettingsError, match=r"passing is another name for scheduler\.backfill"):
        load_settings(file, {}, NOBODY)
