"""Settings: which source wins, and what a mistake is called."""

from decimal import Decimal
from pathlib import Path

import pytest

from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import Tenant
from tgpu.settings import (
    Settings,
    SettingsError,
    TenantSettings,
    all_keys,
    default_data_dir,
    is_loopback,
    load_settings,
    sample,
)

NOBODY = {"HOME": "/home/nobody"}


@pytest.fixture
def write(tmp_path):
    def write_file(text, name="settings.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_file


def problems(config_file=None, flags=None, environ=NOBODY) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_settings(config_file, flags or {}, environ)
    return caught.value.problems


def test_without_any_source_the_defaults_hold():
    settings = load_settings(environ=NOBODY)
    assert settings == Settings(data_dir=Path("/home/nobody/.local/share/tgpu"))
    assert (settings.api.host, settings.api.http_port) == ("127.0.0.1", 8080)
    assert settings.database_path == Path("/home/nobody/.local/share/tgpu/tgpu.db")
    assert settings.tenants == ()


def test_every_key_has_a_description_and_says_what_is_allowed():
    assert [key.name for key in all_keys() if not key.description or not key.allowed] == []


def test_flags_beat_the_environment_which_beats_the_file(write):
    file = write("api: {http_port: 1}\nscheduler: {aging_seconds: 1}\nengine: {grace_seconds: 1}\n")
    environ = NOBODY | {
        "GPU_SCHEDULER_API_HTTP_PORT": "2",
        "GPU_SCHEDULER_SCHEDULER_AGING_SECONDS": "2",
    }
    settings = load_settings(file, {"api.http_port": 3}, environ)
    assert settings.api.http_port == 3
    assert settings.scheduler.aging_seconds == 2
    assert settings.engine.grace_seconds == 1
    assert settings.devices.gpus == "auto"


def test_a_flag_that_is_none_was_not_given(write):
    assert load_settings(write("api: {http_port: 1}"), {"api.http_port": None}).api.http_port == 1


def test_an_empty_variable_counts_as_not_set():
    assert load_settings(environ=NOBODY | {"GPU_SCHEDULER_API_SOCKET": ""}).api.socket is None


@pytest.mark.parametrize("key", all_keys(), ids=lambda key: key.name)
def test_every_key_can_be_set_by_its_variable(key):
    changed = {
        "data_dir": "/elsewhere",
        "scheduler.policy": "fifo",
        "scheduler.backfill_over": "fairshare",
        "scheduler.backfill": "conservative",
        "scheduler.placement": "consolidated",
        "scheduler.enable_preemption": "true",
        "scheduler.clock": "manual",
        "scheduler.enable_thermal_aware": "false",
        "scheduler.enable_gang_scheduling": "false",
        "devices.labels": '{"rack": "r1"}',
        "devices.memory_threshold": "0.5",
        "devices.load_threshold": "0.5",
        "devices.allocation_precision": "0.5",
        "devices.memory_overuse": "end",
        "api.host": "localhost",
        "api.socket": "/run/tgpu.sock",
        "api.insecure_listen": "true",
        "auth.enabled": "true",
        "auth.local_users": "true",
        "database.kind": "memory",
        "database.path": "/elsewhere/jobs.db",
        "devices.gpus": "sim:2xH100",
        "engine.kind": "none",
        "engine.jobs_as_service_user": "true",
        "security.secret_key_file": "/etc/tgpu/secret.key",
        "engine.screen": "true",
        "engine.tmux": "true",
        "engine.prolog": '["/bin/true", "-x"]',
        "engine.epilog": '["/bin/true", "-y"]',
        "engine.hook_timeout_seconds": "5",
        "engine.prolog_failures": "7",
        "engine.epilog_holds": "true",
        "engine.fence_gpus": "on",
        "tenants": '[{"tenant_id": "vision"}]',
        "notices": '[{"kind": "desktop"}]',
        "auth.map": '[{"group": "vision-team", "tenants": ["vision"]}]',
        "api.allowed_hosts": '["gpu.example.org"]',
        "security.allowed_script_paths": '["/data"]',
        "security.enable_resource_limits": "false",
        "logging.level": "DEBUG",
        "logging.format": "json",
        "logging.file": "/elsewhere/log",
        "database.url": "postgresql://db/jobs",
        "database.sslmode": "require",
        "quota.k8s_create_resource_quotas": "true",
        "quota.slurm_rest_api_url": "http://slurm:6820",
        "quota.adjust": "true",
    }.get(key.name, "17")
    # What only makes sense beside another key.
    beside = {
        "api.tls_cert": {"GPU_SCHEDULER_API_TLS_KEY": "/key.pem"},
        "api.tls_key": {"GPU_SCHEDULER_API_TLS_CERT": "/cert.pem"},
        "quota.adjust_min_borrow": {"GPU_SCHEDULER_QUOTA_ADJUST_MAX_BORROW": "20"},
    }
    environ = NOBODY | beside.get(key.name, {})
    for variable in key.variables:
        settings = load_settings(environ=environ | {variable: changed})
        assert settings != load_settings(environ=NOBODY)


def test_the_long_variable_beats_its_short_name():
    environ = {"GPU_SCHEDULER_GPUS": "sim:1xT4", "GPU_SCHEDULER_DEVICES_GPUS": "sim:2xT4"}
    assert load_settings(environ=NOBODY | environ).devices.gpus == "sim:2xT4"


@pytest.mark.parametrize("file_format", ["yaml", "json", "toml"])
def test_the_sample_loads_back_to_the_defaults(write, file_format):
    file = write(sample(file_format), f"sample.{file_format}")
    assert load_settings(file, environ=NOBODY) == load_settings(environ=NOBODY)


def test_the_sample_sent_into_a_file_called_json_loads_as_it_is(write):
    file = write(sample("yaml"), "config.json")
    assert load_settings(file, environ=NOBODY) == load_settings(environ=NOBODY)


@pytest.mark.parametrize("file_format", ["yaml", "json", "toml"])
def test_the_sample_explains_every_key(file_format):
    text = sample(file_format)
    assert [key.name for key in all_keys() if key.description not in text] == []


@pytest.mark.parametrize("file_format", ["yaml", "toml"])
def test_the_sample_is_still_right_with_its_commented_keys_switched_on(write, file_format):
    # Lines such as "# socket: …" and "#   - tenant_id: …", not the sentences that explain.
    marks = (
        *("data_dir", "socket", "path", "file", "tenants:", "[[", "tenant_id", "max_gpus", "  "),
        *("user", "password", "expected_gpus", "k8s_namespace", "slurm_rest_api_url"),
        *("notices:", "kind =", 'host = "smtp', "sender =", "to =", "events ="),
        *("map:", "group =", "tenants =", "default ="),
    )
    lines = []
    for line in sample(file_format).splitlines():
        stripped = line.lstrip()
        body = stripped.removeprefix("# ")
        switched_on = stripped.startswith("# ") and body.startswith(marks)
        lines.append(line.replace("# ", "", 1) if switched_on else line)
    settings = load_settings(write("\n".join(lines), f"on.{file_format}"), environ=NOBODY)
    assert settings.tenants[0].max_gpus_by_type == {"A100": Decimal(2)}
    assert settings.notices[0].to == ("ops@example.org",)
    assert [rule.tenants for rule in settings.auth.map] == [("vision",), ("guests",)]
    assert settings.api.socket is not None


def test_the_same_settings_load_from_yaml_json_and_toml(write):
    files = [
        write("tenants: [{tenant_id: t1, max_gpus_by_type: {A100: 2}}]", "a.yaml"),
        write('{"tenants": [{"tenant_id": "t1", "max_gpus_by_type": {"A100": 2}}]}', "a.json"),
        write('[[tenants]]\ntenant_id = "t1"\nmax_gpus_by_type = {A100 = 2}', "a.toml"),
    ]
    first, *others = [load_settings(file, environ=NOBODY) for file in files]
    assert first.tenants[0].tenant_id == "t1"
    assert others == [first, first]


@pytest.mark.parametrize("word", ["on", "off", "auto"])
def test_a_bare_on_in_yaml_is_the_word(write, word):
    settings = load_settings(write(f"engine: {{fence_gpus: {word}}}"), environ=NOBODY)
    assert settings.engine.fence_gpus == word


@pytest.mark.parametrize("text", ["", "# nothing\n", "api:\n"], ids=["empty", "comments", "bare"])
def test_a_file_that_says_nothing_changes_nothing(write, text):
    assert load_settings(write(text), environ=NOBODY) == load_settings(environ=NOBODY)


def test_a_tenant_becomes_integers_of_the_core():
    tenant = TenantSettings(
        tenant_id="t1",
        max_gpus=Decimal("1.5"),
        max_gpus_by_type={"H100": Decimal(1), "A100": Decimal(2)},
        max_cpu_cores=0.5,
        max_concurrent_jobs=3,
    )
    assert tenant.to_tenant() == Tenant(
        tenant_id=TenantId("t1"),
        max_gpu_millis=1500,
        max_gpu_millis_by_type=(("A100", 2000), ("H100", 1000)),
        max_cpu_millis=500,
        max_running_jobs=3,
    )


def test_a_limit_of_zero_is_a_limit_and_a_missing_one_is_none():
    tenant = TenantSettings(tenant_id="t1", max_gpus=Decimal(0)).to_tenant()
    assert tenant.max_gpu_millis == 0
    assert tenant.max_running_jobs is None


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_DATA_HOME": "/data", "HOME": "/home/x"}, "/data/tgpu"),
        ({"HOME": "/home/x"}, "/home/x/.local/share/tgpu"),
        ({"XDG_DATA_HOME": "relative", "HOME": "/home/x"}, "/home/x/.local/share/tgpu"),
    ],
)
def test_the_data_directory_follows_xdg(environ, expected):
    assert default_data_dir(environ) == Path(expected)


def test_a_path_may_begin_with_the_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/home/x")
    assert load_settings(flags={"data_dir": "~/jobs"}).data_dir == Path("/home/x/jobs")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("api: {http_prt: 5}", "api.http_prt is not a setting; did you mean api.http_port?"),
        ("apis: {}", "apis is not a setting; did you mean api?"),
        (
            "scheduler: {grace_seconds: 5}",
            "scheduler.grace_seconds is not a setting; did you mean engine.grace_seconds?",
        ),
        (
            "logging: {zzz: 5}",
            "logging.zzz is not a setting; there are: level, format, file, max_size_mb, "
            "backup_count",
        ),
        (
            "tenants: [{tenant_id: a, max_gpu: 1}]",
            "tenants[0].max_gpu is not a setting; did you mean tenants[0].max_gpus?",
        ),
        ("tenants: [{max_gpus: 1}]", "tenants[0].tenant_id is missing"),
        (
            "tenants: [{tenant_id: 5}]",
            "tenants[0].tenant_id must be a text: put it in quotes, not 5",
        ),
        (
            "tenants: [{tenant_id: a, max_gpus_by_type: {A100: -1}}]",
            "tenants[0].max_gpus_by_type.A100 must be a number from 0 to 100000, not -1",
        ),
        (
            "tenants: [{tenant_id: a, max_gpus: 0.001}]",
            "tenants[0].max_gpus must be a number of GPUs in steps of 0.01, not 0.001",
        ),
        (
            "auth: {map: [{tenants: [a]}]}",
            "auth.map[0]: must have one of user, group and default: true, for example group: "
            "vision-team",
        ),
        (
            "auth: {map: [{user: a, group: b, tenants: [a]}]}",
            "auth.map[0]: must have one of user, group and default: true, for example group: "
            "vision-team",
        ),
        (
            "auth: {map: [{group: b}]}",
            "auth.map[0]: must name tenants, for example tenants: [vision]",
        ),
        (
            "auth: {map: [{group: b, tenants: [a], role: boss}]}",
            "auth.map[0].role must be one of admin, operator, user, viewer, not 'boss'",
        ),
        (
            "tenants: [{tenant_id: a}, {tenant_id: a}]",
            "tenants: 'a' is given twice; name each one once",
        ),
        ("api: 5", "api must be a section with keys of its own, not 5"),
        (
            "api: {http_port: 99999}",
            "api.http_port must be a whole number from 0 to 65535, not 99999",
        ),
        ("api: {http_port: yes}", "api.http_port must be a whole number from 0 to 65535, not True"),
        ("api: {insecure_listen: 7}", "api.insecure_listen must be true or false, not 7"),
        (
            "database: {kind: mongo}",
            "database.kind must be one of sqlite, memory, postgresql, not 'mongo'",
        ),
        ("data_dir: ''", "data_dir must be a path, not ''"),
        (
            "devices: {gpus: 8}",
            "devices.gpus must be a text: put it in quotes, not 8",
        ),
        (
            "devices: {cpu_overcommit: .inf}",
            "devices.cpu_overcommit must be a number above 0 and up to 1000, not inf",
        ),
    ],
)
def test_a_mistake_in_the_file_names_file_key_value_and_remedy(write, text, problem):
    file = write(text)
    place = "" if problem.startswith("tenants: ") else ", line 1"
    assert problems(file) == (f"{file}{place}: {problem}",)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.yaml", "# a comment\napi:\n  host: localhost\n  http_prt: 5\n", 4),
        ("a.json", '{"api": {\n  "host": "localhost",\n  "http_prt": 5\n}}', 3),
    ],
)
def test_a_mistake_in_the_file_names_its_line(write, name, text, line):
    (problem,) = problems(write(text, name))
    assert f"{name}, line {line}: api.http_prt is not a setting" in problem


def test_a_variable_does_not_hide_a_section_that_is_none(write):
    file = write("api: 5")
    assert problems(file, environ=NOBODY | {"GPU_SCHEDULER_API_HOST": "localhost"}) == (
        f"{file}, line 1: api must be a section with keys of its own, not 5",
    )


def test_all_mistakes_are_reported_at_once(write):
    assert len(problems(write("api: {http_port: x}\nengine: {kind: y}\nzzz: 1\n"))) == 3


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a.yaml", "api:\n\tx: 5\n", ", line 2: is not YAML: "),
        ("a.yaml", "api: {}\n\napi: {}\n", ", line 3: 'api' is there twice"),
        ("a.json", '{"api":\n {"http_port": 1,}}', ", line 2: is not JSON: "),
        ("a.json", '{"api": {}, "api": {}}', ": 'api' is there twice"),
        ("a.toml", "[api]\nx = \n", ", line 2: is not TOML: a value or a name is not"),
        ("a.yaml", "just words", ": must hold sections such as 'api:', not a single value"),
        ("a.ini", "", ": the name of a settings file ends in .yaml, .yml, .json or .toml"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_refused_with_its_place(write, name, text, place):
    file = write(text, name)
    (problem,) = problems(file)
    assert problem.startswith(f"{file}{place}")


def test_an_unreadable_file_is_refused_with_the_cause(tmp_path):
    missing = tmp_path / "missing.yaml"
    assert problems(missing) == (f"{missing}: cannot be read: there is no such file or folder",)


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    file = tmp_path / "latin.yaml"
    file.write_bytes("api: {host: 'é'}".encode("latin-1"))
    assert problems(file) == (f"{file}: is not UTF-8 text (byte 13)",)


def test_a_mistake_in_a_variable_names_the_variable():
    assert problems(environ=NOBODY | {"GPU_SCHEDULER_API_HTTP_PORT": "x"}) == (
        "GPU_SCHEDULER_API_HTTP_PORT: api.http_port must be a whole number from 0 to 65535, "
        "not 'x'",
    )
    assert problems(environ=NOBODY | {"K8S_CREATE_RESOURCE_QUOTAS": "maybe"}) == (
        "K8S_CREATE_RESOURCE_QUOTAS: quota.k8s_create_resource_quotas must be true or false, "
        "not 'maybe'",
    )


def test_tenants_in_a_variable_must_be_json():
    (problem,) = problems(environ=NOBODY | {"GPU_SCHEDULER_TENANTS": "vision"})
    assert problem.startswith("GPU_SCHEDULER_TENANTS: tenants must be a list written as JSON")


def test_a_mistake_in_a_flag_names_the_flag():
    assert problems(flags={"devices.gpus": "sim:"}) == (
        "--gpus: devices.gpus must be auto, nvml, nvidia-smi or a simulated node such as "
        "sim:8xA100, not 'sim:'",
    )


def test_a_misspelt_variable_is_refused_with_the_right_name():
    assert problems(environ=NOBODY | {"GPU_SCHEDULER_API_HTP_PORT": "5"}) == (
        "GPU_SCHEDULER_API_HTP_PORT: is not a setting; did you mean GPU_SCHEDULER_API_HTTP_PORT?",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GPU_SCHEDULER_SERVICE_HOST", "10.0.0.1"),
        ("GPU_SCHEDULER_API_SERVICE_PORT", "8080"),
        ("GPU_SCHEDULER_API_PORT", "tcp://10.0.0.1:8080"),
        ("GPU_SCHEDULER_API_PORT_8080_TCP_ADDR", "10.0.0.1"),
    ],
)
def test_variables_that_kubernetes_sets_for_a_service_of_this_name_are_left_alone(name, value):
    assert load_settings(environ=NOBODY | {name: value}) == load_settings(environ=NOBODY)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "gpubox", "127.0.0.1.evil"])
def test_listening_for_other_machines_is_refused_and_the_sentence_names_the_flag(host):
    (problem,) = problems(flags={"api.host": host})
    assert problem.startswith(f"--host: api: host {host!r} can be reached from other machines")
    assert "--insecure-listen" in problem


def test_listening_for_other_machines_can_be_insisted_on():
    settings = load_settings(flags={"api.host": "0.0.0.0", "api.insecure_listen": True})
    assert settings.api.host == "0.0.0.0"


def test_the_host_does_not_matter_without_a_port():
    flags = {"api.host": "0.0.0.0", "api.http_port": 0, "api.socket": "/run/tgpu.sock"}
    assert load_settings(flags=flags).api.http_port == 0


def test_a_service_that_nobody_could_reach_is_refused():
    (problem,) = problems(flags={"api.http_port": 0})
    assert "http_port is 0 and no socket is set" in problem


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost"])
def test_loopback_addresses_are_known(host):
    assert is_loopback(host)


def test_an_unknown_sample_format_is_refused():
    with pytest.raises(ValueError, match="must be one of yaml, json, toml"):
        sample("xml")


def test_the_files_that_the_service_reads_are_beside_the_settings_file(write, tmp_path):
    file = write("files: {jobs_file: jobs.txt, llm_config_file: /etc/sizes.json}")
    files = load_settings(file, environ=NOBODY).files
    assert files.jobs_file == tmp_path / "jobs.txt"
    assert files.llm_config_file == Path("/etc/sizes.json")


def test_a_log_is_beside_the_settings_file_too(write, tmp_path):
    file = write("logging: {file: tgpu.log}")
    assert load_settings(file, environ=NOBODY).logging.file == tmp_path / "tgpu.log"


def test_a_file_named_by_the_environment_is_where_that_says():
    environ = NOBODY | {"GPU_SCHEDULER_FILES_JOBS_FILE": "jobs.txt"}
    assert load_settings(environ=environ).files.jobs_file == Path("jobs.txt")
