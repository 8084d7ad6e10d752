"""By which names this machine may be asked for, and from which pages."""

import socket

import pytest

from tgpu.api.auth.web_pages import WebPages, host_name
from tgpu.core.errors import Forbidden, Malformed


@pytest.mark.parametrize(
    "host",
    [
        *("[::1", "::1]", "[::1]x", "[nothing]", "a b", "a/b", "user@host", "host:port"),
        *(
            "a?b",
            "a#b",
            "[",
            ":80",
            "\\",
            "[::1]:80:90",
            "http://host",
            "ho\tst",
            "hôst",
            "a:99999",
        ),
    ],
)
def test_a_host_that_no_request_can_have_is_malformed(host):
    with pytest.raises(Malformed, match="Host: must be a name or an address"):
        host_name({"host": host})


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("[::1]:8080", "::1"),
        ("127.0.0.1:8080", "127.0.0.1"),
        ("LocalHost", "localhost"),
        ("gpu.example.org:", "gpu.example.org"),
        ("", ""),
    ],
)
def test_the_name_is_without_its_port(host, name):
    assert host_name({"host": host}) == name


def test_this_machine_is_asked_for_by_its_own_name_or_one_that_is_allowed():
    pages = WebPages(["gpu.example.org"])
    for name in ("gpu.example.org:8080", "GPU.example.org.", socket.gethostname(), "10.1.2.3"):
        pages.refuse({"host": name})
    with pytest.raises(Forbidden, match=r"api\.allowed_hosts"):
        pages.refuse({"host": "other.example.org"})


@pytest.mark.parametrize("origin", ["http://[::1", "null", "", "http://127.0.0.1", "x"])
def test_a_page_of_another_place_is_refused_whatever_it_says_of_itself(origin):
    with pytest.raises(Forbidden, match="may not use this service"):
        WebPages().refuse({"host": "127.0.0.1:8080", "origin": origin})
