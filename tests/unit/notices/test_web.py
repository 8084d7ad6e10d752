"""Webhooks and Slack against a real HTTP server."""

import hashlib
import hmac
import json
import logging
import ssl

import pytest
import trustme

from tests.real_service import free_port
from tests.servers.hook_server import HookServer
from tests.unit.notices.letters import a_letter
from tgpu.notices.notice import NotSent
from tgpu.notices.web import SlackTarget, Web, WebhookTarget

KEY = "a-key-of-ours"


async def send_to(server: HookServer, *letters, key: str | None = KEY, tls=None, seconds=5.0):
    target = WebhookTarget(Web(server.url, tls, seconds), server.url, key)
    try:
        return await target.send(letters)
    finally:
        await target.close()


async def test_a_notice_is_posted_as_json():
    with HookServer().running() as server:
        assert await send_to(server, a_letter(gpus=(0, 3))) == []
    (posted,) = server.posted
    told = json.loads(posted.body)
    assert posted.headers["Content-Type"] == "application/json"
    assert posted.headers["X-Tgpu-Event"] == "failure"
    assert posted.headers["X-Tgpu-Delivery"] == told["id"] == "7-1000"
    assert told["at"] == "1970-01-01T00:00:01.000+00:00"
    assert (told["job_id"], told["user"], told["gpus"]) == ("12", "ada", [0, 3])


async def test_the_body_is_signed():
    with HookServer().running() as server:
        await send_to(server, a_letter())
    (posted,) = server.posted
    expected = hmac.new(KEY.encode(), posted.body, hashlib.sha256).hexdigest()
    assert posted.headers["X-Tgpu-Signature-256"] == f"sha256={expected}"


async def test_without_a_key_nothing_is_signed():
    with HookServer().running() as server:
        await send_to(server, a_letter(), key=None)
    assert "X-Tgpu-Signature-256" not in server.posted[0].headers


@pytest.mark.parametrize("status", [500, 502, 503, 408, 429])
async def test_trouble_of_the_server_is_tried_again(status):
    with HookServer().running() as server:
        server.answers = [status]
        with pytest.raises(NotSent, match=str(status)):
            await send_to(server, a_letter())


async def test_a_server_that_asks_for_a_pause_gets_it():
    with HookServer().running() as server:
        server.answers, server.headers = [429], {"Retry-After": "30"}
        with pytest.raises(NotSent) as told:
            await send_to(server, a_letter())
    assert told.value.after_seconds == 30


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
async def test_what_is_refused_for_good_is_given_up(status):
    with HookServer().running() as server:
        server.answers = [status]
        (problem,) = await send_to(server, a_letter())
    assert str(status) in problem


async def test_a_redirect_is_not_followed():
    with HookServer().running() as inner, HookServer().running() as server:
        server.answers, server.headers = [307], {"Location": inner.url}
        (problem,) = await send_to(server, a_letter())
    assert "redirects are not followed" in problem
    assert inner.posted == []


async def test_nobody_there_is_tried_again():
    with pytest.raises(NotSent, match="ConnectError"):
        await send_to(HookServer(port=free_port()), a_letter())


async def test_a_server_that_is_too_slow_is_tried_again():
    with HookServer().running() as server:
        server.silent_seconds = 1.0
        with pytest.raises(NotSent, match="ReadTimeout"):
            await send_to(server, a_letter(), seconds=0.1)


async def test_a_server_with_a_certificate_is_believed_where_its_authority_is_known():
    authority = trustme.CA()
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(theirs)
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    with HookServer(tls=theirs).running() as server:
        assert await send_to(server, a_letter(), tls=ours) == []
        with pytest.raises(NotSent, match="CERTIFICATE_VERIFY_FAILED"):
            await send_to(server, a_letter())
    assert len(server.posted) == 1


async def test_slack_gets_lines_of_text():
    with HookServer().running() as server:
        target = SlackTarget(Web(server.url, None, 5.0), server.url)
        await target.send([a_letter(), a_letter(title="job 13 <!channel> & co", cause=None)])
        await target.close()
    text = json.loads(server.posted[0].body)["text"]
    assert text == (
        ":warning: *job 12 (train) failed*\n> exit code 1\n"
        ":warning: *job 13 &lt;!channel&gt; &amp; co*"
    )


async def test_where_it_goes_is_shown_without_the_path():
    web = Web("https://hooks.example.org:8443/services/T0/SECRET?token=x", None, 5.0)
    assert web.host == "https://hooks.example.org:8443"
    await web.close()


async def test_an_address_with_a_login_is_shown_without_it():
    web = Web("https://me:SECRET@hooks.example.org/x", None, 5.0)
    assert "SECRET" not in web.host
    await web.close()


async def test_the_set_up_of_logging_keeps_addresses_out_of_the_log():
    from tgpu.log import set_up_logging
    from tgpu.settings.model import LoggingSettings

    before = logging.getLogger().handlers
    try:
        set_up_logging(LoggingSettings(level="DEBUG"))
        assert not logging.getLogger("httpx").isEnabledFor(logging.INFO)
        assert not logging.getLogger("httpcore").isEnabledFor(logging.DEBUG)
    finally:
        logging.getLogger().handlers = before
