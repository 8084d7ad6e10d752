"""Addresses that a gateway takes, and what it needs to run."""

import subprocess
import sys

import pytest

from tgpu.gateway.options import GatewayOptions


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "https://scheduler/prefix"])
def test_addresses_over_http_are_taken(url: str) -> None:
    assert GatewayOptions(url).upstream == url


@pytest.mark.parametrize(
    "url", ["", "scheduler:8080", "unix:/run/tgpu.sock", "http://", "http://u:p@host", "http://h?a"]
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        GatewayOptions(url)


def test_a_gateway_that_shares_nothing_needs_no_redis_package() -> None:
    program = (
        "import sys; sys.modules['redis'] = None\n"
        "import tgpu.gateway.serve\n"
        "from tgpu.gateway.app import Gateway, GatewayOptions\n"
        "import asyncio\n"
        "async def main(): Gateway(GatewayOptions('http://127.0.0.1:1'))\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
