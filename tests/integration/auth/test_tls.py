"""The real service with a certificate: encrypted on TCP, plain on its Unix socket."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest
import trustme

from tests.real_service import RealService, free_port
from tgpu.wire import scheduler_pb2 as pb
from tgpu.wire import scheduler_pb2_grpc as rpc


class Encrypted(RealService):
    """The same over https, with the authority that the tests trust."""

    authority: trustme.CA
    grpc_port: int

    def client(self) -> httpx.Client:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        url = self.url.replace("http://", "https://")
        return httpx.Client(base_url=url, timeout=30, trust_env=False, verify=context)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    directory = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    issued.private_key_pem.write_to_path(directory / "key.pem")
    for part in issued.cert_chain_pems:
        part.write_to_path(directory / "certificate.pem", append=True)
    grpc_port = free_port()
    api: dict[str, object] = {
        "tls_cert": str(directory / "certificate.pem"),
        "tls_key": str(directory / "key.pem"),
        "socket": str(directory / "tgpu.sock"),
        "grpc_port": grpc_port,
    }
    settings: dict[str, dict[str, object]] = {
        "api": api,
        "auth": {"enabled": True, "local_users": False},
    }
    with Encrypted(directory, settings=settings) as service:
        service.authority = authority
        service.grpc_port = grpc_port
        service.start()
        yield service


def admin_key(service: Encrypted) -> str:
    socket = service.data_dir.parent / "tgpu.sock"
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket))) as client:
        body = {"name": "boss", "role": "admin"}
        return str(client.post("http://localhost/api/v1/keys", json=body).json()["key"])


def test_the_port_is_encrypted_and_asks_browsers_to_stay_so(service: Encrypted) -> None:
    answer = service.http.get("/api/v1/health")
    assert answer.status_code == 200
    assert answer.headers["strict-transport-security"].startswith("max-age=")


def test_plain_text_gets_no_answer_there(service: Encrypted) -> None:
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"{service.url}/api/v1/health", trust_env=False)


def test_a_stranger_to_the_authority_refuses_the_certificate(service: Encrypted) -> None:
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"https://127.0.0.1:{service.port}/api/v1/health", trust_env=False)


def test_a_key_that_was_made_over_the_plain_socket_works_over_the_encrypted_port(
    service: Encrypted,
) -> None:
    headers = {"Authorization": f"Bearer {admin_key(service)}"}
    assert service.http.get("/api/v1/whoami", headers=headers).json()["role"] == "admin"


def test_the_grpc_port_is_encrypted_and_asks_who_calls(service: Encrypted) -> None:
    trusted = service.authority.cert_pem.bytes()
    credentials = grpc.ssl_channel_credentials(root_certificates=trusted)
    address = f"localhost:{service.grpc_port}"
    with grpc.secure_channel(address, credentials) as channel:
        stub = rpc.SchedulerServiceStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            stub.ListJobs(pb.ListJobsRequest(), timeout=20)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        metadata = (("authorization", f"Bearer {admin_key(service)}"),)
        assert list(stub.ListJobs(pb.ListJobsRequest(), timeout=20, metadata=metadata).jobs) == []


@pytest.mark.parametrize(
    ("api", "problem"),
    [
        ({"tls_cert": "here.pem"}, "belong together"),
        ({"tls_cert": "missing.pem", "tls_key": "missing.pem"}, "there is no file"),
        ({"tls_cert": "here.pem", "tls_key": "here.pem"}, "cannot use"),
    ],
)
def test_certificates_that_cannot_be_used_are_told_at_the_start(
    tmp_path: Path, api: dict[str, str], problem: str
) -> None:
    (tmp_path / "here.pem").write_text("no certificate")
    settings: dict[str, dict[str, object]] = {
        "api": {name: str(tmp_path / file) for name, file in api.items()}
    }
    with RealService(tmp_path, settings=settings) as service:
        assert service.launch().wait(40) != 0
        assert problem in service.log_text()
