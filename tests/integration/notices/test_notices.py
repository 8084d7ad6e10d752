"""The real service with real servers: people are told, whatever dies meanwhile."""

import json
from typing import Any

import pytest

from tests.real_service import RealService, eventually, free_port, gate
from tests.servers.hook_server import HookServer
from tests.servers.mail_server import MailServer

URL_SECRET = "T0-hook-secret"
KEY = "the-signing-key"
PASSWORD = "the-mail-password"


@pytest.fixture
def service(tmp_path):
    """Not started: tests say first who is told."""
    made: list[RealService] = []

    def make(*notices: dict[str, Any], **environ: str) -> RealService:
        variables = {"GPU_SCHEDULER_NOTICES": json.dumps(notices), **environ}
        settings = {"logging": {"level": "DEBUG"}}
        made.append(RealService(tmp_path, environ=variables, settings=settings))
        return made[0]

    yield make
    for each in made:
        each.tear_down()


def a_hook(server: HookServer, **fields: Any) -> dict[str, Any]:
    url = f"{server.url}/{URL_SECRET}"
    return {"kind": "webhook", "url": url, "secret_env": "HOOK_KEY"} | fields


def ends_in(server: HookServer) -> list[str]:
    told = [json.loads(posted.body) for posted in server.posted]
    return [each["job_id"] for each in told if each["event"] in ("end", "failure")]


def test_a_failure_reaches_the_webhook_with_its_cause(service):
    with HookServer().running() as hook:
        served = service(a_hook(hook, events=["failure"]), HOOK_KEY=KEY).start()
        served.end(served.submit("true"))
        job_id = served.submit("exit 3", name="train")
        served.end(job_id)
        eventually(lambda: hook.posted, "the webhook to be told")
    told = json.loads(hook.posted[0].body)
    assert (told["job_id"], told["event"], told["exit_code"]) == (job_id, "failure", 3)
    assert told["title"] == f"job {job_id} (train) failed"
    assert len(hook.posted) == 1


def test_a_job_has_mail_sent_to_its_owner(service):
    with MailServer().running() as mail:
        served = service(
            {
                "kind": "mail",
                "host": "127.0.0.1",
                "port": mail.port,
                "security": "none",
                "sender": "tgpu@example.org",
                "for_jobs": True,
                "job_domains": ["example.org"],
            }
        ).start()
        job_id = served.submit("true", mail_to=["ada@example.org"])
        eventually(lambda: mail.received, "the mail")
        refused = served.http.post(
            "/api/v1/jobs", json=served.request("true", mail_to=["ada@elsewhere.org"])
        )
    assert mail.recipients == [["ada@example.org"]]
    assert mail.received[0]["Subject"] == f"[tgpu] job {job_id} completed"
    assert refused.status_code == 422
    assert "example.org" in refused.json()["error"]["message"]


def test_a_service_that_writes_no_mail_says_so_at_submission(service):
    served = service().start()
    body = served.request("true", mail_to=["ada@example.org"])
    answer = served.http.post("/api/v1/jobs", json=body)
    assert answer.status_code == 422
    assert "sends no mail for jobs" in answer.json()["error"]["message"]


def test_what_happened_while_the_receiver_was_down_is_told_when_it_is_back(service):
    port = free_port()
    served = service(a_hook(HookServer(port=port), events=["end"]), HOOK_KEY=KEY).start()
    jobs = [served.submit("true") for _ in range(3)]
    for job_id in jobs:
        served.end(job_id)
    eventually(lambda: served.get("/notices")["notices"][0]["problem"], "a first try")
    with HookServer(port=port).running() as hook:
        eventually(lambda: len(hook.posted) >= 3, "all to be told")
    assert sorted(ends_in(hook)) == sorted(jobs)
    assert served.get("/notices")["notices"][0]["sent"] == 3


def test_a_service_that_was_killed_leaves_nothing_out(service):
    port = free_port()
    served = service(a_hook(HookServer(port=port), events=["end"]), HOOK_KEY=KEY).start()
    before = served.submit("true")
    served.end(before)
    across = served.submit(gate())
    served.running(across)
    served.kill()  # nothing could be sent yet
    served.open_gate()
    with HookServer(port=port).running() as hook:
        served.start()
        served.end(across)
        after = served.submit("true")
        eventually(lambda: after in ends_in(hook), "the last to be told")
    assert ends_in(hook) == [before, across, after]


def test_a_clean_restart_repeats_nothing(service):
    with HookServer().running() as hook:
        served = service(a_hook(hook, events=["end"]), HOOK_KEY=KEY).start()
        first = served.submit("true")
        eventually(lambda: ends_in(hook) == [first], "the first to be told")
        assert served.terminate() == 0
        served.start()
        second = served.submit("true")
        eventually(lambda: second in ends_in(hook), "the second to be told")
    assert ends_in(hook) == [first, second]


def test_a_receiver_that_hangs_slows_neither_jobs_nor_the_end_of_the_service(service):
    with HookServer().running() as hook, MailServer().running() as mail:
        hook.silent_seconds = mail.silent_seconds = 60
        mail_to = {"host": "127.0.0.1", "port": mail.port, "security": "none"}
        served = service(
            a_hook(hook, events=["start", "end"], timeout_seconds=60),
            {"kind": "mail", "sender": "a@x.org", "to": ["b@x.org"], "events": ["end"]} | mail_to,
            HOOK_KEY=KEY,
        ).start()
        for _ in range(5):
            assert served.end(served.submit("true"))["state"] == "completed"
        assert served.terminate(20) == 0


def test_a_test_notice_tells_its_result(service):
    with HookServer().running() as hook:
        served = service(a_hook(hook), HOOK_KEY=KEY).start()
        assert served.post("/notices/webhook/test")["ok"] is True
        hook.answers = [404]
        tried = served.post("/notices/webhook/test")
    assert (tried["ok"], tried["problem"]) == (False, "the server answers 404")
    assert tried["where"] == f"http://localhost:{hook.port}"
    assert served.http.post("/api/v1/notices/other/test").status_code == 404


def test_secrets_are_neither_logged_nor_shown(service, tmp_path):
    (tmp_path / "password").write_text(PASSWORD + "\n")
    mail = {
        "kind": "mail",
        "host": "127.0.0.1",
        "port": free_port(),
        "security": "none",
        "user": "tgpu",
        "password_file": str(tmp_path / "password"),
        "sender": "tgpu@example.org",
        "to": ["ops@example.org"],
        "events": ["end"],
    }
    with HookServer().running() as hook:
        served = service(a_hook(hook, events=["end"]), mail, HOOK_KEY=KEY).start()
        hook.answers = [500, 404]
        served.end(served.submit("true"))
        served.end(served.submit("true"))
        eventually(lambda: hook.posted, "the webhook to be told")
        listed = json.dumps(served.get("/notices"))
        served.post("/notices/mail/test")
        metrics = served.http.get("/metrics").text
    assert served.terminate() == 0
    for secret in (URL_SECRET, KEY, PASSWORD):
        for text in (served.log_text(), listed, metrics):
            assert secret not in text
    assert 'gpu_scheduler_notices_total{notice="webhook",outcome="sent"}' in metrics


def test_a_secret_that_is_missing_keeps_the_service_from_starting(service):
    served = service(a_hook(HookServer(port=1)))
    served.launch().wait(30)
    assert "secret_env: the variable HOOK_KEY is not set" in served.log_text()
    assert URL_SECRET not in served.log_text()
