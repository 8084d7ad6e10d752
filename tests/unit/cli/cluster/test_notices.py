"""tgpu notices: who is told, and a test of it."""

import json

import httpx
import pytest

from tests.unit.cli.fake_service import FakeService
from tests.unit.cli.fake_tenants import Json
from tgpu.cli import connect

NOTICE: Json = {
    "name": "ops",
    "kind": "mail",
    "where": "smtp.example.org:587 to ops@example.org",
    "events": ["failure", "gpu"],
    "tenants": [],
    "users": [],
    "for_jobs": False,
    "sent": 3,
    "dropped": 0,
    "failed_tries": 1,
    "problem": None,
    "behind": 0,
}


class FakeNotices(FakeService):
    notices: tuple[Json, ...] = (NOTICE, {**NOTICE, "name": "hook", "problem": "refused"})
    failing: tuple[str, ...] = ()

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = str(request.url.raw_path, "ascii")[7:]
        self.requests.append((request.method, path))
        if request.method == "GET":
            return httpx.Response(200, json={"notices": list(self.notices)})
        name = path.split("/")[2]
        problem = "the server answers 500" if name in self.failing else None
        tried = {"name": name, "where": "there", "ok": problem is None, "problem": problem}
        return httpx.Response(200, json={**tried, "seconds": 0.25})


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeNotices:
    fake = FakeNotices()
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: fake.client())
    return fake


def test_the_table_shows_who_is_told_and_what_is_wrong(tgpu, service):
    header, first, second = tgpu("notices", "list").out.splitlines()
    assert header.split() == ["NAME", "KIND", "SENT", "DROPPED", "EVENTS", "WHERE", "PROBLEM"]
    assert "failure, gpu" in first
    assert second.startswith("hook")
    assert second.endswith("refused")


def test_nobody_who_is_told_is_said_to_be(tgpu, service):
    service.notices = ()
    assert "no notices are configured" in tgpu("notices", "list").err
    assert tgpu("notices", "test").code == 2


def test_programs_get_the_answer_as_it_is(tgpu, service):
    assert json.loads(tgpu("notices", "list", "--json").out)["notices"][0] == NOTICE


def test_all_are_tried_out_unless_one_is_named(tgpu, service):
    outcome = tgpu("notices", "test")
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        "ops: sent in 0.25 s (there)",
        "hook: sent in 0.25 s (there)",
    ]
    service.requests.clear()
    tgpu("notices", "test", "hook")
    assert service.requests == [("POST", "/notices/hook/test")]


def test_one_that_does_not_get_through_is_a_failure(tgpu, service):
    service.failing = ("hook",)
    outcome = tgpu("notices", "test")
    assert outcome.code == 1
    assert "hook: not sent: the server answers 500 (there)" in outcome.out
