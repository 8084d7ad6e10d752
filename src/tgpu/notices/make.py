"""Creates the targets from the settings; ValueError names the key, and shows no secret."""

import ssl
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from tgpu.core.model.units import SECOND
from tgpu.notices.delivery import Delivery, Rule
from tgpu.notices.dispatch import Dispatch
from tgpu.notices.notice import NoticeTarget
from tgpu.service.service import Service
from tgpu.settings.notices import NoticeSettings, secret_of

_SCHEMES: Final = ("http", "https")


def make_dispatch(
    notices: Sequence[NoticeSettings], service: Service, environ: dict[str, str]
) -> Dispatch:
    deliveries = []
    for settings in notices:
        try:
            target = make_target(settings, environ)
        except ValueError as error:
            raise ValueError(f"notices, {settings.name}: {error}") from None
        deliveries.append(Delivery(_rule(settings), target, service))
    return Dispatch(service, deliveries)


def make_target(settings: NoticeSettings, environ: dict[str, str]) -> NoticeTarget:
    # Imported here: a service that tells nobody starts faster without.
    if settings.kind == "mail":
        return _mail(settings, environ)
    if settings.kind == "desktop":
        from tgpu.notices.desktop import DesktopTarget

        return DesktopTarget(settings.timeout_seconds)
    from tgpu.notices.web import SlackTarget, Web, WebhookTarget

    url = _url(settings, environ)
    web = Web(url, _tls(settings), settings.timeout_seconds)
    if settings.kind == "slack":
        return SlackTarget(web, url)
    key = secret_of(environ, settings.secret_env, settings.secret_file, "secret")
    return WebhookTarget(web, url, key)


def _rule(settings: NoticeSettings) -> Rule:
    return Rule(
        settings.name,
        settings.kind,
        # One that only writes for jobs has no readers of its own.
        frozenset(settings.events if settings.kind != "mail" or settings.to else ()),
        frozenset(settings.tenants),
        frozenset(settings.users),
        settings.for_jobs,
        frozenset(settings.job_domains),
        round(settings.retry_seconds * SECOND),
    )


def _mail(settings: NoticeSettings, environ: dict[str, str]) -> NoticeTarget:
    from tgpu.notices.mail import MailTarget, SmtpServer

    assert settings.host is not None  # the settings were checked
    assert settings.sender is not None
    server = SmtpServer(
        settings.host,
        settings.smtp_port,
        settings.security,
        settings.timeout_seconds,
        settings.user,
        secret_of(environ, settings.password_env, settings.password_file, "password"),
        _tls(settings) or ssl.create_default_context(),
    )
    return MailTarget(server, settings.sender, settings.to)


def _url(settings: NoticeSettings, environ: dict[str, str]) -> str:
    found = (
        settings.url.get_secret_value()
        if settings.url is not None
        else secret_of(environ, settings.url_env, settings.url_file, "url") or ""
    )
    try:
        parts = urlsplit(found)
        usable = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not found.isprintable() or " " in found:
        raise ValueError("url: must be an address such as https://example.org/hook (not shown)")
    return found


def _tls(settings: NoticeSettings) -> ssl.SSLContext | None:
    if settings.ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except OSError as error:
        problem = error.strerror or "no certificate in PEM"
        raise ValueError(f"ca_file: {settings.ca_file}: {problem}") from None
