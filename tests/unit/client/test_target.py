from pathlib import Path

import pytest

from tgpu.client.target import parse_target, unix_target


def test_a_tcp_address_is_kept_without_its_last_slash():
    target = parse_target("http://10.0.0.1:8080/")
    assert (target.base_url, target.socket) == ("http://10.0.0.1:8080", None)
    assert not target.is_local


@pytest.mark.parametrize("text", ["unix:/run/tgpu.sock", "unix:///run/tgpu.sock"])
def test_a_unix_socket_is_a_path(text):
    assert parse_target(text) == unix_target(Path("/run/tgpu.sock"))
    assert str(parse_target(text)) == "unix:/run/tgpu.sock"


@pytest.mark.parametrize("text", ["http://127.0.0.1:8080", "http://localhost:1", "http://[::1]:80"])
def test_no_proxy_stands_before_this_machine(text):
    assert parse_target(text).is_local


@pytest.mark.parametrize(
    "text", ["", "localhost:8080", "ftp://x", "http://", "http://x:port", "http://x:0", "unix:rel"]
)
def test_anything_else_is_refused_with_both_forms(text):
    with pytest.raises(ValueError, match=r"http://host:port or unix:/path/to\.sock"):
        parse_target(text)


def test_a_bracket_that_is_not_closed_is_no_address():
    with pytest.raises(ValueError, match="is not an address of a scheduler"):
        parse_target("http://[::1")
