"""Mail over real SMTP: encrypted and not, with a login, and what servers refuse."""

import ssl
from typing import Any

import pytest
import trustme

from tests.real_service import free_port
from tests.servers.mail_server import MailServer
from tests.unit.notices.letters import a_letter, a_notice
from tgpu.notices.mail import MailTarget, SmtpServer
from tgpu.notices.notice import Letter, NoticeKind, NotSent

PASSWORD = "hunter2-and-more"


def a_target(
    server: MailServer, to: tuple[str, ...] = ("ops@example.org",), **fields
) -> MailTarget:
    made: dict[str, Any] = {
        "host": "localhost",
        "port": server.port,
        "security": "none",
        "timeout_seconds": 5.0,
    }
    return MailTarget(SmtpServer(**(made | fields)), "tgpu@example.org", to)


def certificates() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's, and that of a client who trusts it."""
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


async def test_a_notice_becomes_a_mail():
    with MailServer().running() as server:
        assert await a_target(server).send([a_letter()]) == []
    (mail,) = server.received
    assert mail["Subject"] == "[tgpu] job 12 (train) failed"
    assert mail["From"] == "tgpu@example.org"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert "exit code 1" in mail.get_content()
    assert server.recipients == [["ops@example.org"]]


async def test_the_same_notice_has_the_same_message_id_each_time():
    with MailServer().running() as server:
        for _ in range(2):
            await a_target(server).send([a_letter()])
    first, second = (mail["Message-ID"] for mail in server.received)
    assert first == second


async def test_several_notices_are_one_mail():
    letters = [a_letter(notice_id=f"{n}-0", title=f"job {n} failed") for n in range(3)]
    with MailServer().running() as server:
        await a_target(server).send(letters)
    (mail,) = server.received
    assert mail["Subject"] == "[tgpu] job 0 failed, and 2 more"
    assert "job 2 failed" in mail.get_content()


async def test_the_owner_of_a_job_gets_only_what_is_theirs():
    theirs = Letter(a_notice(title="yours"), to_readers=False, to_owner=("ada@example.org",))
    with MailServer().running() as server:
        await a_target(server).send([a_letter(title="ours"), theirs])
    assert server.recipients == [["ops@example.org"], ["ada@example.org"]]
    assert [mail["Subject"] for mail in server.received] == ["[tgpu] ours", "[tgpu] yours"]


async def test_one_that_writes_to_owners_alone_is_tried_out_on_its_sender():
    with MailServer().running() as server:
        await a_target(server, to=()).send([a_letter(kind=NoticeKind.TEST)])
    assert server.recipients == [["tgpu@example.org"]]


async def test_a_name_cannot_add_a_header():
    letter = a_letter(title="x\r\nBcc: all@example.org")
    with MailServer().running() as server, pytest.raises(ValueError, match=r"newline|linefeed"):
        await a_target(server).send([letter])
    assert server.received == []


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_mail_goes_encrypted(security):
    theirs, ours = certificates()
    with MailServer(security=security, tls=theirs).running() as server:
        assert await a_target(server, security=security, tls=ours).send([a_letter()]) == []
    assert len(server.received) == 1


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_certificate_that_nobody_vouches_for_is_not_believed(security):
    theirs, _ = certificates()
    with MailServer(security=security, tls=theirs).running() as server:
        target = a_target(server, security=security)
        with pytest.raises(NotSent, match="CERTIFICATE_VERIFY_FAILED"):
            await target.send([a_letter()])
    assert server.received == []


async def test_a_server_without_starttls_gets_neither_password_nor_mail():
    with MailServer().running() as server:
        target = a_target(server, security="starttls", user="tgpu", password=PASSWORD)
        with pytest.raises(NotSent, match="STARTTLS"):
            await target.send([a_letter()])
    assert server.received == []


async def test_it_logs_in():
    theirs, ours = certificates()
    login = ("tgpu", PASSWORD)
    with MailServer(security="starttls", tls=theirs, login=login).running() as server:
        target = a_target(server, security="starttls", tls=ours, user="tgpu", password=PASSWORD)
        await target.send([a_letter()])
    assert len(server.received) == 1


async def test_a_wrong_password_is_tried_again_and_not_told():
    theirs, ours = certificates()
    login = ("tgpu", "another")
    with MailServer(security="starttls", tls=theirs, login=login).running() as server:
        target = a_target(server, security="starttls", tls=ours, user="tgpu", password=PASSWORD)
        with pytest.raises(NotSent, match="cannot log in") as told:
            await target.send([a_letter()])
    assert PASSWORD not in str(told.value)


async def test_nobody_there_is_tried_again():
    server = MailServer(port=free_port())
    with pytest.raises(NotSent, match="ConnectionRefused"):
        await a_target(server).send([a_letter()])


@pytest.mark.parametrize("answer", ["451 later", "452 full"])
async def test_a_passing_refusal_is_tried_again(answer):
    with MailServer().running() as server:
        server.answers = [answer]
        with pytest.raises(NotSent, match=answer):
            await a_target(server).send([a_letter()])


async def test_a_mail_that_is_refused_for_good_is_given_up():
    with MailServer().running() as server:
        server.answers = ["554 spam"]
        (problem,) = await a_target(server).send([a_letter()])
    assert "554 spam" in problem


async def test_an_address_that_is_refused_keeps_nobody_else_from_being_told():
    letters = [
        Letter(a_notice(), to_readers=False, to_owner=("gone@example.org",)),
        a_letter(),
    ]
    with MailServer().running() as server:
        server.refused = {"gone@example.org": "550 no such user"}
        (problem,) = await a_target(server).send(letters)
    assert "550 no such user" in problem
    assert server.recipients == [["ops@example.org"]]


async def test_an_address_that_is_refused_for_now_is_tried_again():
    with MailServer().running() as server:
        server.refused = {"ops@example.org": "450 grey-listed"}
        with pytest.raises(NotSent, match="450 grey-listed"):
            await a_target(server).send([a_letter()])


async def test_a_server_that_says_nothing_is_given_up_in_time():
    with MailServer().running() as server:
        server.silent_seconds = 30
        with pytest.raises(NotSent, match=r"timed out|Timeout|longer"):
            await a_target(server, timeout_seconds=0.2).send([a_letter()])
