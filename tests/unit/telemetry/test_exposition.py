"""Scrapes over HTTP."""

import httpx
import pytest

from tgpu.api.rest.app import make_app
from tgpu.telemetry.counts import Counts
from tgpu.telemetry.exposition import Exposition, MetricsPort
from tgpu.telemetry.metrics import make_registry


def a_client(app) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


@pytest.fixture
def exposition() -> Exposition:
    return Exposition(make_registry(Counts()))


async def test_the_metrics_port_shows_the_metrics(exposition):
    async with a_client(MetricsPort(exposition)) as http:
        answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "gpu_scheduler_uptime_seconds " in answer.text


async def test_a_scraper_may_ask_for_openmetrics(exposition):
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with a_client(MetricsPort(exposition)) as http:
        answer = await http.get("/metrics", headers=accept)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/jobs", 404), ("POST", "/metrics", 405)]
)
async def test_the_metrics_port_has_nothing_else(exposition, method, path, status):
    async with a_client(MetricsPort(exposition)) as http:
        answer = await http.request(method, path)
    assert answer.status_code == status


async def test_the_http_port_shows_the_metrics_before_the_service_has_opened(exposition):
    app = make_app(data_dir=None, exposition=exposition)
    async with a_client(app) as http:
        answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert "gpu_scheduler_uptime_seconds " in answer.text


def test_metrics_are_no_part_of_the_rest_api(exposition):
    assert "/metrics" not in make_app(data_dir=None, exposition=exposition).openapi()["paths"]
