"""The composition root: what it needs to start, and what it says when it cannot."""

import json
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tgpu.app import CannotServe, make_service
from tgpu.app.listen import (
    Listening,
    data_directory,
    listen,
    listen_for_scrapes,
    remove_service_file,
    service_file,
    without_taken_grpc_port,
    write_service_file,
)
from tgpu.core.model.rules import BackfillMode, PlacementRule, PreemptionRules, Rules
from tgpu.core.policies import BackfillOrderPolicy
from tgpu.core.policies.priority import PriorityWithAging
from tgpu.core.policies.shortest import Shortest
from tgpu.devices.detect import detect
from tgpu.engines.api import NO_LIMITS, AttemptLimits
from tgpu.engines.local.engine import LocalEngine
from tgpu.service.forecast.estimates import EstimateSettings
from tgpu.settings import Settings
from tgpu.store.memory import MemoryStore
from tgpu.store.sqlite import SqliteStore


def some_settings(directory: Path, **sections: Any) -> Settings:
    return Settings.model_validate({"data_dir": str(directory), **sections})


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


# -- the data directory ----------------------------------------------------------------------


def test_the_data_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    with data_directory(some_settings(tmp_path / "a" / "data")) as made:
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
        write_service_file(made, Listening([], "http://127.0.0.1:8080", None))
        assert {stat.S_IMODE(file.stat().st_mode) for file in made.iterdir()} == {0o600}


def test_two_services_cannot_share_a_data_directory(tmp_path: Path) -> None:
    settings = some_settings(tmp_path)
    with (
        data_directory(settings),
        pytest.raises(CannotServe, match=r"already runs on .*--data-dir"),
        data_directory(settings),
    ):
        pass
    with data_directory(settings):  # free again
        pass


def test_a_data_directory_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(CannotServe, match=r"cannot use the data directory .*file.*--data-dir"),
        data_directory(some_settings(tmp_path / "file")),
    ):
        pass


# -- listening -------------------------------------------------------------------------------


def test_a_port_in_use_is_named_with_the_way_out(tmp_path: Path, taken_port: int) -> None:
    settings = some_settings(tmp_path, api={"http_port": taken_port})
    with (
        pytest.raises(CannotServe, match=f"cannot listen on 127.0.0.1:{taken_port}: .*--port"),
        listen(settings),
    ):
        pass


def test_a_unix_socket_is_its_owner_s_alone_and_goes_with_the_service(tmp_path: Path) -> None:
    path = tmp_path / "service.sock"
    with listen(some_settings(tmp_path, api={"http_port": 0, "socket": str(path)})) as listening:
        assert (listening.url, listening.path) == (None, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()


def test_a_socket_left_over_from_a_crash_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "service.sock"
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))
    with listen(some_settings(tmp_path, api={"http_port": 0, "socket": str(path)})) as listening:
        assert len(listening.sockets) == 1


def test_a_socket_that_another_service_has_there_by_now_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    settings = some_settings(tmp_path, api={"http_port": 0, "socket": str(path)})
    with listen(settings):
        path.unlink()
        path.write_text("the next one's")
    assert path.read_text() == "the next one's"


def test_a_service_file_of_another_service_is_left_alone(tmp_path: Path) -> None:
    write_service_file(tmp_path, Listening([], None, None))
    remove_service_file(tmp_path)
    assert not service_file(tmp_path).exists()
    service_file(tmp_path).write_text(json.dumps({"pid": 1}))
    remove_service_file(tmp_path)
    assert service_file(tmp_path).exists()


def test_a_file_in_the_way_of_a_socket_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("precious")
    settings = some_settings(tmp_path, api={"http_port": 0, "socket": str(path)})
    with pytest.raises(CannotServe, match=r"is not a socket; .*--socket"), listen(settings):
        pass
    assert path.read_text() == "precious"


def test_a_socket_that_cannot_be_is_named(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 120) / "s"
    settings = some_settings(tmp_path, api={"http_port": 0, "socket": str(path)})
    with pytest.raises(CannotServe, match=r"cannot listen on .*--socket"), listen(settings):
        pass


# -- what the command line finds it by -------------------------------------------------------


def test_the_service_file_says_where_the_service_is(tmp_path: Path) -> None:
    write_service_file(tmp_path, Listening([], "http://127.0.0.1:8080", None))
    facts = json.loads((tmp_path / "service.json").read_text())
    assert (facts["url"], facts["socket"]) == ("http://127.0.0.1:8080", None)
    assert sorted(facts) == ["pid", "socket", "started_at", "url", "version"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["service.json"]


# -- composition -----------------------------------------------------------------------------


def test_settings_choose_store_engine_and_clock(tmp_path: Path) -> None:
    found = detect("sim:2xA100")
    quick = some_settings(
        tmp_path,
        scheduler={"clock": "manual"},
        database={"kind": "memory"},
        engine={"kind": "none"},
    )
    service = make_service(quick, tmp_path, found)
    assert isinstance(service.store, MemoryStore)
    assert service.engine is None
    assert service.clock.manual
    usual = make_service(some_settings(tmp_path), tmp_path, found)
    assert isinstance(usual.store, SqliteStore)
    assert isinstance(usual.engine, LocalEngine)
    assert not usual.clock.manual


def test_without_tenants_there_is_one_without_limits(tmp_path: Path) -> None:
    service = make_service(some_settings(tmp_path), tmp_path, detect("sim:2xA100"))
    (tenant,) = service.settings.tenants
    assert tenant.tenant_id == "default"
    assert tenant.max_gpu_millis is None


# -- several services on one machine ----------------------------------------------------------


def test_services_that_keep_nothing_run_beside_each_other(tmp_path: Path) -> None:
    settings = some_settings(tmp_path, database={"kind": "memory"}, engine={"kind": "none"})
    with data_directory(settings) as first, data_directory(settings) as second:
        assert first == tmp_path
        assert second != first
        assert second.is_dir()
    assert not second.exists()


def test_a_metrics_port_nobody_asked_for_may_be_taken(tmp_path: Path, taken_port: int) -> None:
    settings = some_settings(tmp_path)
    api = settings.api.model_copy(update={"metrics_port": taken_port})
    api.model_fields_set.discard("metrics_port")
    with listen_for_scrapes(settings.model_copy(update={"api": api})) as listening:
        assert listening is None


def test_a_metrics_port_that_was_asked_for_must_be_free(tmp_path: Path, taken_port: int) -> None:
    settings = some_settings(tmp_path, api={"metrics_port": taken_port})
    with (
        pytest.raises(CannotServe, match=rf"127\.0\.0\.1:{taken_port}.*api\.metrics_port"),
        listen_for_scrapes(settings),
    ):
        pass


def test_a_grpc_port_nobody_asked_for_may_be_taken(tmp_path: Path, taken_port: int) -> None:
    settings = some_settings(tmp_path)
    api = settings.api.model_copy(update={"grpc_port": taken_port})
    api.model_fields_set.discard("grpc_port")
    left = without_taken_grpc_port(settings.model_copy(update={"api": api}))
    assert left.api.grpc_port == 0


def test_a_grpc_port_that_was_asked_for_must_be_free(tmp_path: Path, taken_port: int) -> None:
    settings = some_settings(tmp_path, api={"grpc_port": taken_port})
    with pytest.raises(CannotServe, match="--grpc-port"):
        without_taken_grpc_port(settings)


# -- the rules of the cycle ------------------------------------------------------------------


def rules_of(directory: Path, **scheduler: Any) -> Rules:
    settings = some_settings(directory, scheduler=scheduler, database={"kind": "memory"})
    return make_service(settings, directory, detect("sim:1xA100")).settings.scheduling.rules


def test_the_settings_decide_who_may_pass(tmp_path: Path) -> None:
    assert rules_of(tmp_path) == Rules(BackfillMode.EASY, 100, 3_600_000, None)
    chosen = rules_of(tmp_path, backfill="conservative", reservation_depth=5, hold_after_seconds=0)
    assert chosen == Rules(BackfillMode.CONSERVATIVE, 5, None, None)


@pytest.mark.parametrize(
    ("backfill", "expected"),
    [
        ("greedy", BackfillMode.EASY),
        ("easy", BackfillMode.EASY),
        ("conservative", BackfillMode.CONSERVATIVE),
    ],
)
def test_the_policy_backfill_passes_only_around_reservations(
    tmp_path: Path, backfill: str, expected: BackfillMode
) -> None:
    assert rules_of(tmp_path, policy="backfill", backfill=backfill).backfill is expected


@pytest.mark.parametrize("policy", ["las", "adaptive"])
def test_under_policies_with_ranks_whoever_fits_passes(tmp_path: Path, policy: str) -> None:
    rules = rules_of(tmp_path, policy=policy, backfill="strict", hold_after_seconds=60)
    assert (rules.backfill, rules.hold_after_ms) == (BackfillMode.GREEDY, None)


def test_a_policy_of_simulations_alone_is_refused_with_what_to_take(tmp_path: Path) -> None:
    with pytest.raises(CannotServe, match=r"^scheduler.policy: 'tiresias' .* las, or adaptive"):
        rules_of(tmp_path, policy="tiresias")


def test_the_settings_decide_where_jobs_go(tmp_path: Path) -> None:
    scheduler, database = {"placement": "consolidated"}, {"kind": "memory"}
    settings = some_settings(tmp_path, scheduler=scheduler, database=database)
    service = make_service(settings, tmp_path, detect("sim:1xA100"))
    assert service.state.ledger.placement_rule is PlacementRule.CONSOLIDATED


def test_preemption_is_off_until_it_is_wanted(tmp_path: Path) -> None:
    assert rules_of(tmp_path, preempt_margin=7).preemption is None
    assert rules_of(
        tmp_path,
        enable_preemption=True,
        preempt_margin=7,
        preempt_min_run_seconds=2,
        preempt_spare_seconds=3,
        preempt_most_times=4,
    ).preemption == PreemptionRules(margin=7, min_run_ms=2000, spare_ms=3000, most_times=4)


def test_the_orders_take_their_numbers_from_the_settings(tmp_path: Path) -> None:
    scheduler = {
        "policy": "backfill",
        "backfill_over": "shortest",
        "shortest_bound_seconds": 9,
        "aging_seconds": 5,
        "aging_step": 2,
        "fair_share_half_life_hours": 1.5,
    }
    settings = some_settings(tmp_path, scheduler=scheduler, database={"kind": "memory"})
    service = make_service(settings, tmp_path, detect("sim:1xA100"))
    assert service.settings.scheduling.policy == BackfillOrderPolicy(Shortest(9000))
    assert service.settings.scheduling.policies["priority"] == PriorityWithAging(5000, 2)
    assert service.state.meters.half_life_ms == 5_400_000


def limits_of(directory: Path, **security: Any) -> AttemptLimits:
    settings = some_settings(directory, database={"kind": "memory"}, security=security)
    return make_service(settings, directory, detect("sim:1xT4")).settings.launch.limits


def test_limits_of_jobs_are_those_of_the_settings(tmp_path: Path) -> None:
    asked = {"max_memory_per_job_gb": 0.5, "max_cpu_hours": 2, "max_open_files": 100}
    assert limits_of(tmp_path, **asked) == AttemptLimits(2**29, 7200, 100)
    assert limits_of(tmp_path, **asked, enable_resource_limits=False) == NO_LIMITS
    assert limits_of(tmp_path) == NO_LIMITS


@pytest.mark.parametrize(("program", "name"), [("screen", "GNU screen"), ("tmux", "tmux")])
def test_sessions_need_their_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, name: str
) -> None:
    settings = some_settings(tmp_path, database={"kind": "memory"}, engine={program: True})
    made = make_service(settings, tmp_path, detect("sim:1xT4"))
    assert made.settings.launch.multiplexer == program
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotServe, match=f"{name} is not installed"):
        make_service(settings, tmp_path, detect("sim:1xT4"))


def test_sessions_are_of_one_program(tmp_path: Path) -> None:
    both = {"screen": True, "tmux": True}
    settings = some_settings(tmp_path, database={"kind": "memory"}, engine=both)
    with pytest.raises(CannotServe, match="choose one"):
        make_service(settings, tmp_path, detect("sim:1xT4"))


def test_the_settings_decide_how_far_estimates_of_starts_look(tmp_path: Path) -> None:
    prediction = {
        "estimate_interval_seconds": 30,
        "estimate_budget_ms": 100,
        "estimate_jobs": 50,
    }
    settings = some_settings(tmp_path, prediction=prediction)
    service = make_service(settings, tmp_path, detect("sim:1xA100"))
    assert service.settings.estimates == EstimateSettings(30, 0.1, 50)
