"""The pages for people: whole without any other host, under any prefix, and silent to strangers."""

import base64
import hashlib
import re
from urllib.parse import urljoin

import pytest

from tests.integration.api.http import an_api, error_of
from tests.integration.auth.door import a_door, as_role
from tgpu import __version__
from tgpu.api.rest.app import make_app

ADDRESSES = re.compile(r"""(?:href|src)=["']([^"']+)["']""")


async def test_the_start_page_says_what_this_is_and_what_to_type() -> None:
    async with an_api() as api:
        answer = await api.get("/")
        assert (answer.status_code, answer.headers["content-type"]) == (
            200,
            "text/html; charset=utf-8",
        )
        assert f"<h1>tgpu {__version__}, the GPU scheduler</h1>" in answer.text
        assert "tgpu submit --gpus 1 -- python train.py" in answer.text
        assert "<script" not in answer.text


@pytest.mark.parametrize("page", ["/", "/docs"])
async def test_a_page_needs_no_other_host_and_works_under_a_prefix(page: str) -> None:
    async with an_api() as api:
        text = (await api.get(page)).text
        found = ADDRESSES.findall(text)
        assert len(found) >= 4
        assert [each for each in found if "//" in each or each.startswith("/")] == []
        for address in found:
            if address == "metrics":
                continue  # only where the service has them
            there = urljoin(f"http://127.0.0.1/gpu{page}", address)
            answer = await api.get(there.replace("/gpu/", "/"))
            assert answer.status_code == 200, there


async def test_the_page_of_the_api_runs_no_script_but_its_own_files() -> None:
    async with an_api() as api:
        answer = await api.get("/docs")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert re.findall(r"<script>|<style|style=|onclick", answer.text) == []
        script = await api.get("/docs/start.js")
        assert script.headers["content-type"].startswith("text/javascript")
        assert "SwaggerUIBundle" in script.text


async def test_other_spellings_of_the_page_lead_to_it() -> None:
    async with an_api() as api:
        for path, to in (("/docs/", "../docs"), ("/redoc", "docs")):
            answer = await api.get(path)
            assert (answer.status_code, answer.headers["location"]) == (308, to)
        for name in ("nothing.js", "..%2Fmain.py", "main.py"):
            error_of(await api.get(f"/docs/{name}"), 404, "NOT_FOUND")


async def test_who_is_not_signed_in_gets_the_pages_and_learns_nothing_of_this_service() -> None:
    async with a_door() as door:
        stranger = await door.get("/")
        assert stranger.status_code == 200
        assert __version__ not in stranger.text
        assert "You are not signed in: requests need an API key." in stranger.text
        for address in ADDRESSES.findall((await door.get("/docs")).text):
            assert (await door.get(f"/{address}")).status_code == 200, address
        known = await door.get("/", headers=as_role("viewer"))
        assert __version__ in known.text
        assert "not signed in" not in known.text


async def test_the_pages_style_is_the_one_that_its_policy_allows() -> None:
    async with an_api() as api:
        answer = await api.get("/")
        (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        assert f"style-src 'sha256-{digest}'" in answer.headers["content-security-policy"]
        assert "style=" not in answer.text


def test_nothing_of_the_pages_is_in_the_description_of_the_api() -> None:
    paths = make_app(data_dir=None).openapi()["paths"]
    assert [path for path in paths if path == "/" or path.startswith("/docs")] == []
