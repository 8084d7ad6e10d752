"""Where a client connects, who it says it is, and what it trusts."""

import ssl
from pathlib import Path

import httpx
import pytest

from tests.unit.cli.builders import a_running_job
from tgpu.client.connection import Connection
from tgpu.client.errors import (
    ClientError,
    Conflict,
    Denied,
    Invalid,
    NotFound,
    TimedOut,
    Unavailable,
)
from tgpu.client.http import Client
from tgpu.client.surroundings import data_dir, surroundings
from tgpu.client.target import unix_target
from tgpu.wire.v1 import SubmitRequest


def options(target: str, *, api_key=None, verify=True):
    return Connection(target, api_key, 30, verify).http_options()


def test_a_key_is_sent_as_a_bearer_token():
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return httpx.Response(204)

    transport = httpx.MockTransport(answer)
    with Client("http://127.0.0.1:1", api_key="tgpu_abc", transport=transport) as client:
        client.remove_queue("a:b")
    assert seen == ["Bearer tgpu_abc"]


def test_without_a_key_nothing_is_said_of_who_asks():
    assert options("http://127.0.0.1:1")["headers"] == {}


def test_an_address_may_be_text():
    with Client("unix:/run/x.sock") as client:
        assert client.target == unix_target(Path("/run/x.sock"))


def test_certificates_are_checked_unless_that_is_switched_off():
    assert options("https://gpu.example")["verify"] is True
    assert options("https://gpu.example", verify=False)["verify"] is False


def test_a_file_of_authorities_is_loaded(tmp_path):
    missing = tmp_path / "ca.pem"
    with pytest.raises(FileNotFoundError):
        options("https://gpu.example", verify=missing)
    context = ssl.create_default_context()
    assert options("https://gpu.example", verify=context)["verify"] is context


def test_on_a_connection_without_encryption_no_authority_is_loaded():
    assert options("http://gpu.example:8080")["verify"] is False


def test_proxies_do_not_count_on_this_machine():
    assert options("http://localhost:1")["trust_env"] is False
    assert options("http://gpu.example:1")["trust_env"] is True


def test_the_environment_names_service_and_key():
    found = surroundings({"TGPU_URL": "http://gpu.example:8080", "TGPU_API_KEY": "k"})
    assert (str(found.target), found.api_key) == ("http://gpu.example:8080", "k")


def test_without_a_name_it_is_the_service_of_this_user(tmp_path):
    found = surroundings({"TGPU_DATA_DIR": str(tmp_path)})
    assert found.target == unix_target(tmp_path / "service.sock")
    assert found.api_key is None


def test_the_data_directory_is_where_the_command_line_has_it(tmp_path):
    assert data_dir({"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "tgpu"
    both = {"TGPU_DATA_DIR": "/a", "GPU_SCHEDULER_DATA_DIR": "/b"}
    assert data_dir(both) == Path("/a")


def test_a_client_without_arguments_asks_the_surroundings(monkeypatch):
    monkeypatch.setenv("TGPU_URL", "http://127.0.0.1:4711")
    with Client() as client:
        assert str(client.target) == "http://127.0.0.1:4711"


def test_jobs_that_name_no_tenant_are_for_the_one_of_the_environment(monkeypatch):
    monkeypatch.setenv("TGPU_URL", "http://127.0.0.1:4711")
    monkeypatch.setenv("TGPU_TENANT", "vision")
    ours = Connection(None, None, 30, True)
    assert ours.for_tenant(SubmitRequest(command=["true"])).tenant_id == "vision"
    named = SubmitRequest(command=["true"], tenant_id="speech")
    assert ours.for_tenant(named).tenant_id == "speech"
    elsewhere = Connection("http://gpu.example", None, 30, True)
    assert elsewhere.for_tenant(SubmitRequest(command=["true"])).tenant_id is None


def test_the_key_of_the_environment_is_shown_to_no_service_that_was_named(monkeypatch):
    monkeypatch.setenv("TGPU_API_KEY", "k")
    assert Connection("http://gpu.example", None, 30, True).http_options()["headers"] == {}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid),
        (401, Denied),
        (403, Denied),
        (404, NotFound),
        (409, Conflict),
        (410, Conflict),
        (413, Invalid),
        (422, Invalid),
        (429, Unavailable),
        (500, ClientError),
        (503, Unavailable),
    ],
)
def test_each_status_has_its_kind_of_error(status, kind):
    body = {"error": {"code": "X", "message": "no", "details": []}}
    transport = httpx.MockTransport(lambda _: httpx.Response(status, json=body))
    client = Client("http://127.0.0.1:1", transport=transport)
    with client, pytest.raises(ClientError) as caught:
        client.get_job("1")
    assert (type(caught.value), caught.value.status) == (kind, status)


def test_a_timeout_says_how_the_job_stands():
    assert str(TimedOut(a_running_job("12"))) == "job 12 is still running"


def test_the_environment_names_the_authorities(monkeypatch, tmp_path):
    monkeypatch.setenv("TGPU_URL", "https://gpu.example")
    monkeypatch.setenv("TGPU_CA_FILE", str(tmp_path / "ca.pem"))
    with pytest.raises(FileNotFoundError):
        Client()
    assert Connection(None, None, 30, False).http_options()["verify"] is False
