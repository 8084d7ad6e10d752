"""The dashboard and the alert rules against the metrics that the service really has."""

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.telemetry.conftest import Watched
from tests.meta.repository import DOCS, ROOT

DEPLOY = ROOT / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "tgpu.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def promtool(*arguments: str | Path, text: str | None = None) -> None:
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.prefix, "bin"))])
    program = shutil.which("promtool", path=places)
    if program is None:
        pytest.skip("no promtool: on Debian, `make system-packages` fetches it")
    done = subprocess.run([program, *arguments], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout + done.stderr


def test_promtool_takes_the_alert_rules() -> None:
    promtool("check", "rules", ALERTS)


def test_promtool_takes_the_sample_configuration() -> None:
    promtool("check", "config", DEPLOY / "prometheus" / "prometheus.yml")


def test_every_alert_fires_when_it_should_and_only_then() -> None:
    promtool("test", "rules", Path(__file__).with_name("alerts_test.yml"))


def test_promtool_finds_nothing_to_complain_about_in_the_metrics(watched: Watched) -> None:
    ours = [line for line in watched.scrape().splitlines() if "gpu_scheduler_" in line]
    promtool("check", "metrics", text="\n".join(ours) + "\n")


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_promtool_can_read_every_query_of_the_dashboard(panel: dict[str, Any], tmp_path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": filled_in(target["expr"])}
        for number, target in enumerate(panel["targets"])
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", file)


def filled_in(expression: str) -> str:
    return expression.replace("$__rate_interval", "1m").replace("$instance", ".*")


def exposed(text: str) -> set[str]:
    """Names that a query can use. A family without samples yet counts by its name."""
    found = {
        sample.name for family in text_string_to_metric_families(text) for sample in family.samples
    }
    return found | set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))


def named_in(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:gpu_scheduler|process)_[a-z_]+", expression))


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_every_metric_of_the_dashboard_exists(watched: Watched, panel: dict[str, Any]) -> None:
    named = {name for target in panel["targets"] for name in named_in(target["expr"])}
    assert named
    assert named - exposed(watched.scrape()) == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_metric_of_the_alerts_exists(watched: Watched, rule: dict[str, Any]) -> None:
    assert named_in(rule["expr"]) - exposed(watched.scrape()) == set()


def test_every_label_that_the_dashboard_and_the_alerts_group_by_exists(watched: Watched) -> None:
    expressions = [target["expr"] for panel in PANELS for target in panel["targets"]]
    expressions += [rule["expr"] for rule in RULES]
    grouped = {
        label.strip()
        for expression in expressions
        for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
        for label in labels.split(",")
    }
    known = {
        label
        for family in text_string_to_metric_families(watched.scrape())
        for sample in family.samples
        for label in sample.labels
    }
    assert grouped - known == {"instance"}  # which Prometheus adds


def test_every_alert_is_tested() -> None:
    tests = yaml.safe_load(Path(__file__).with_name("alerts_test.yml").read_text())["tests"]
    fired = {
        case["alertname"]
        for test in tests
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }
    assert fired == {rule["alert"] for rule in RULES}


def test_the_dashboard_asks_whatever_data_source_is_chosen() -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    targets = [target for panel in PANELS for target in panel["targets"]]
    assert [item["datasource"] for item in (*PANELS, *targets)] == [chosen] * (
        len(PANELS) + len(targets)
    )
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"


def test_the_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_the_reference_lists_exactly_the_metrics_there_are(watched: Watched) -> None:
    page = (DOCS / "reference" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `(gpu_scheduler_[a-z_]+)` \|", page, re.MULTILINE))
    there = set(re.findall(r"^# TYPE (gpu_scheduler_\S+)", watched.scrape(), re.MULTILINE))
    assert documented == there


def test_the_howto_says_what_to_do_about_every_alert() -> None:
    page = (DOCS / "howto" / "monitor.md").read_text()
    assert [rule["alert"] for rule in RULES if f"| `{rule['alert']}` |" not in page] == []
