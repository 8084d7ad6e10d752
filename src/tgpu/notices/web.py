"""Notices by HTTP: signed JSON for programs, text for Slack and compatible services."""

import hashlib
import hmac
import json
import ssl
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import httpx

from tgpu import __version__
from tgpu.notices.notice import Letter, Notice, NoticeKind, NotSent
from tgpu.text.instants import iso_text

SIGNATURE: Final = "X-Tgpu-Signature-256"
_LINES: Final = 20  # notices in one message of Slack, which shows no more than some
_TROUBLE: Final = frozenset(
    {NoticeKind.FAILURE, NoticeKind.GPU, NoticeKind.DEADLINE, NoticeKind.BUDGET}
)
# What says "not now": the rest of 4xx will say the same again.
_LATER: Final = frozenset({408, 409, 425, 429})


class Web:
    """POSTs to one address. Redirects are not followed: they could lead anywhere."""

    def __init__(self, url: str, tls: ssl.SSLContext | None, timeout_seconds: float) -> None:
        self._url = url
        parts = urlsplit(url)
        self.host = f"{parts.scheme}://{parts.hostname or ''}" + (
            f":{parts.port}" if parts.port else ""
        )
        self._client = httpx.AsyncClient(
            timeout=timeout_seconds,
            verify=True if tls is None else tls,
            follow_redirects=False,
            headers={"User-Agent": f"tgpu/{__version__}"},
        )

    async def post(self, body: bytes, headers: Mapping[str, str]) -> str | None:
        """None, or why the other side will never take it. NotSent where it may yet."""
        headers = {"Content-Type": "application/json", **headers}
        try:
            # What it answers is not read: it may be without end, and nobody wants to know it.
            async with self._client.stream(
                "POST", self._url, content=body, headers=headers
            ) as answer:
                status, wait = answer.status_code, answer.headers.get("Retry-After", "")
        except (httpx.HTTPError, ssl.SSLError, OSError) as error:
            raise NotSent(f"{type(error).__name__}: {error}".rstrip(": ")) from None
        if status < 300:
            return None
        if status in _LATER or status >= 500:
            raise NotSent(f"the server answers {status}", float(wait) if wait.isdigit() else 0.0)
        if status < 400:
            return f"the server answers {status}: redirects are not followed"
        return f"the server answers {status}"

    async def close(self) -> None:
        await self._client.aclose()


class WebhookTarget:
    most = 1  # one notice a request is what receivers expect

    def __init__(self, web: Web, url: str, key: str | None) -> None:
        self._web = web
        self._key = None if key is None else key.encode()
        self.where = web.host
        self.secrets: tuple[str, ...] = (url, *(() if key is None else (key,)))

    async def send(self, letters: Sequence[Letter]) -> list[str]:
        refused = []
        for letter in letters:
            notice = letter.notice
            body = json.dumps(as_json(notice), separators=(",", ":")).encode()
            headers = {"X-Tgpu-Event": notice.kind.value, "X-Tgpu-Delivery": notice.notice_id}
            if self._key is not None:
                headers[SIGNATURE] = signature(self._key, body)
            problem = await self._web.post(body, headers)
            refused += [] if problem is None else [problem]
        return refused

    async def close(self) -> None:
        await self._web.close()


class SlackTarget:
    most = _LINES

    def __init__(self, web: Web, url: str) -> None:
        self._web = web
        self.where = web.host
        self.secrets: tuple[str, ...] = (url,)

    async def send(self, letters: Sequence[Letter]) -> list[str]:
        text = "\n".join(_slack_lines(letter.notice) for letter in letters)
        problem = await self._web.post(json.dumps({"text": text}).encode(), {})
        return [] if problem is None else [problem]

    async def close(self) -> None:
        await self._web.close()


def signature(key: bytes, body: bytes) -> str:
    """As GitHub writes it, so that receivers need no new code."""
    return "sha256=" + hmac.new(key, body, hashlib.sha256).hexdigest()


def as_json(notice: Notice) -> dict[str, object]:
    return {
        "id": notice.notice_id,
        "event": notice.kind.value,
        "at": iso_text(notice.at, "milliseconds"),
        "title": notice.title,
        "text": notice.text,
        "job_id": notice.job_id,
        "name": notice.name,
        "user": notice.user,
        "tenant_id": notice.tenant_id,
        "state": notice.state,
        "exit_code": notice.exit_code,
        "cause": notice.cause,
        "failure": notice.failure,
        "node": notice.node,
        "gpus": list(notice.gpus),
        "gpu_names": list(notice.gpu_names),
    }


def _slack_lines(notice: Notice) -> str:
    sign = ":warning: " if notice.kind in _TROUBLE else ""
    cause = f"\n> {_escaped(notice.cause)}" if notice.cause else ""
    return f"{sign}*{_escaped(notice.title)}*{cause}"


def _escaped(text: str) -> str:
    """Slack's three: what a job is called must not become a link or call everybody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
