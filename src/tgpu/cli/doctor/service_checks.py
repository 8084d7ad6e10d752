"""Checks of `tgpu doctor` for a given service: health, clock, disk, certificate, and the caller's
identity there."""

import socket
import ssl
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

from tgpu.cli.environment import now_ms, variables
from tgpu.cli.findings import Check, FindingLevel
from tgpu.cli.own_config import chosen
from tgpu.cli.render.whoami import whoami_lines
from tgpu.client.call import Call
from tgpu.client.errors import ClientError
from tgpu.client.http import Client
from tgpu.client.target import Target

_DISK: Final = "gpu_scheduler_disk_free_bytes "
_LEAST_FREE_BYTES: Final = 1024**3
_CLOCK_SECONDS: Final = 5.0  # its Date is in whole seconds, and an answer takes its time
_SOON_DAYS: Final = 14


def of_target(client: Client, problems: list[str]) -> list[Check]:
    """Beside its health and its GPUs. `problems` are those that it told of itself."""
    checks = [*_transport(client.target), *_clock(client), *_disk(client)]
    if not any(text.startswith("engine") for text in problems):
        checks.append(Check("engine", FindingLevel.OK, "jobs can be started and ended"))
    return [*checks, _who(client)]


def _who(client: Client) -> Check:
    try:
        found = client.whoami()
    except ClientError as error:
        remedy = (
            "set TGPU_API_KEY to a key of this service (its admin creates one: tgpu keys create)"
        )
        return Check("you", FindingLevel.FAIL, error.message, remedy)
    if found.problem:
        return Check("you", FindingLevel.WARN, found.problem, "tgpu whoami")
    return Check("you", FindingLevel.OK, "; ".join(whoami_lines(found, chosen("tenant", None))))


def _clock(client: Client) -> list[Check]:
    try:
        told = client.send(Call("GET", "/api/v1/health", _date))
        ahead = parsedate_to_datetime(told).timestamp() - now_ms() / 1000
    except (ClientError, ValueError, TypeError):
        return []  # its health says what is wrong, or something in between keeps the date
    if abs(ahead) <= _CLOCK_SECONDS:
        return [Check("clock", FindingLevel.OK, "its clock and yours agree")]
    way = "ahead of" if ahead > 0 else "behind"
    finding = f"its clock is {abs(ahead):.0f} s {way} yours: times of jobs look wrong here"
    return [
        Check(
            "clock", FindingLevel.WARN, finding, "timedatectl set-ntp true, on the one that is off"
        )
    ]


def _date(_: bytes, headers: Mapping[str, str]) -> str:
    return headers.get("date", "")


def _disk(client: Client) -> list[Check]:
    """Operators may read its metrics; everybody else is told of a full disk by its health."""
    try:
        text = client.send(Call("GET", "/metrics", lambda content, _: content.decode()))
        line = next(line for line in text.splitlines() if line.startswith(_DISK))
        free = float(line.removeprefix(_DISK))
    except (ClientError, StopIteration, ValueError):
        return []
    finding = f"{free / 1024**3:.1f} GiB free in its data directory"
    if free >= _LEAST_FREE_BYTES:
        return [Check("disk", FindingLevel.OK, finding)]
    return [Check("disk", FindingLevel.WARN, finding, "free some space there")]


def _transport(target: Target) -> list[Check]:
    if target.is_plain:
        if target.is_local:
            return []
        finding = f"the connection to {target} is not encrypted: keys are sent in clear text"
        return [Check("tls", FindingLevel.WARN, finding, "set api.tls_cert and api.tls_key there")]
    try:
        days = _days_left(target)
    except (OSError, ValueError, KeyError) as error:
        reason = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or "no TLS"
        remedy = "set TGPU_CA_FILE to the certificate authority that it uses"
        return [
            Check("tls", FindingLevel.FAIL, f"its certificate cannot be checked: {reason}", remedy)
        ]
    finding = f"its certificate is trusted, for {days:.0f} more days"
    if days >= _SOON_DAYS:
        return [Check("tls", FindingLevel.OK, finding)]
    return [Check("tls", FindingLevel.WARN, finding, "renew it: api.tls_cert there")]


def _days_left(target: Target) -> float:
    place = urlsplit(target.base_url)
    host = place.hostname or ""
    context = ssl.create_default_context(cafile=variables().get("TGPU_CA_FILE") or None)
    with (
        socket.create_connection((host, place.port or 443), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        found = secured.getpeercert() or {}
    return (ssl.cert_time_to_seconds(str(found["notAfter"])) - now_ms() / 1000) / 86_400
