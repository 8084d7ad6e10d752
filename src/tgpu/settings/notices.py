"""Settings of notices. Passwords and keys come from a variable or a file."""

import re
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from tgpu.settings.fields import NOT_BOOL, FilePath, SecretText, Section
from tgpu.text.system_words import system_words
from tgpu.wire.mail import ADDRESS

_ADDRESS: Final = re.compile(ADDRESS)
_DOMAIN: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_WEB: Final = ("webhook", "slack")
_ONE_OF: Final = {
    "mail": frozenset(
        {"host", "port", "security", "user", "password_env", "password_file", "sender", "to"}
        | {"for_jobs", "job_domains", "ca_file"}
    ),
    "webhook": frozenset({"url", "url_env", "url_file", "secret_env", "secret_file", "ca_file"}),
    "slack": frozenset({"url", "url_env", "url_file", "ca_file"}),
    "desktop": frozenset(),
}
_PORTS: Final = {"starttls": 587, "tls": 465, "none": 25}
_RETRY_HOURS: Final = {"desktop": 0.1}  # nobody wants to read on a screen what was hours ago

NoticeEvent = Literal["start", "end", "failure", "preemption", "idle", "gpu", "deadline", "budget"]
VariableName = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _address(text: str) -> str:
    if len(text) > 320 or not _ADDRESS.match(text) or not text.isprintable():
        raise ValueError("must be an e-mail address such as ops@example.org")
    return text


def _domain(text: str) -> str:
    if _DOMAIN.fullmatch(text) is None:
        raise ValueError("must be a domain such as example.org")
    return text.lower()


Address = Annotated[str, AfterValidator(_address)]
_Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s/]+$")]


class NoticeSettings(Section):
    """One who is told. Keys of other kinds than its own are refused."""

    kind: Literal["mail", "webhook", "slack", "desktop"] = Field(
        description="mail over SMTP, webhook (JSON by POST), slack (or compatible), desktop "
        "(notify-send where the service runs)."
    )
    name: _Name = Field(default="", description="Its name; default: its kind.")
    events: tuple[NoticeEvent, ...] = Field(
        default=("failure", "preemption", "idle", "gpu", "deadline", "budget"),
        description="Events to send: start, end, failure, preemption, idle, gpu, deadline, budget.",
    )
    tenants: tuple[_Name, ...] = Field(
        default=(),
        description="Only events of these tenants, and none about GPUs; empty for all.",
    )
    users: tuple[Annotated[str, Field(min_length=1, max_length=256)], ...] = Field(
        default=(), description="Only jobs of these users; empty for all."
    )
    url: SecretText | None = Field(
        default=None,
        description="webhook, slack: URL to POST to; only its host is ever shown.",
    )
    url_env: VariableName | None = Field(
        default=None, description="Environment variable of the service with the URL."
    )
    url_file: FilePath | None = Field(default=None, description="File with the URL.")
    secret_env: VariableName | None = Field(
        default=None, description="webhook: environment variable with the signing key."
    )
    secret_file: FilePath | None = Field(
        default=None, description="webhook: file with the signing key."
    )
    host: Annotated[str, Field(min_length=1, max_length=255)] | None = Field(
        default=None, description="mail: the SMTP server."
    )
    port: Annotated[int, Field(ge=1, le=65_535), NOT_BOOL] | None = Field(
        default=None, description="mail: SMTP port; default: 587, 465 or 25, depending on security."
    )
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls",
        description="mail: starttls or tls (the certificate is checked), or none.",
    )
    user: Annotated[str, Field(min_length=1, max_length=255)] | None = Field(
        default=None, description="mail: user name to log in with; default: no login."
    )
    password_env: VariableName | None = Field(
        default=None, description="mail: environment variable with the password."
    )
    password_file: FilePath | None = Field(
        default=None, description="mail: file with the password."
    )
    sender: Address | None = Field(default=None, description="mail: sender address.")
    to: tuple[Address, ...] = Field(default=(), description="mail: recipient addresses.")
    for_jobs: bool = Field(
        default=False,
        description="mail: also send what jobs request with --mail-user and --mail-type.",
    )
    job_domains: tuple[Annotated[str, AfterValidator(_domain)], ...] = Field(
        default=(), description="mail: domains that jobs may send mail to; empty for all."
    )
    ca_file: FilePath | None = Field(
        default=None,
        description="Certificate authority (PEM) of the server; default: the system's.",
    )
    timeout_seconds: Annotated[float, Field(ge=0.1, le=300, allow_inf_nan=False), NOT_BOOL] = Field(
        default=10.0, description="Timeout; a slower server is retried later."
    )
    retry_hours: Annotated[float, Field(ge=0, le=8760, allow_inf_nan=False), NOT_BOOL] | None = (
        Field(
            default=None,
            description="How long to retry before dropping a notice; default: 24, for desktop 0.1.",
        )
    )

    @model_validator(mode="before")
    @classmethod
    def _is_named(cls, given: object) -> object:
        if isinstance(given, dict) and "name" not in given and isinstance(given.get("kind"), str):
            return {**given, "name": given["kind"]}
        return given

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        every = frozenset().union(*_ONE_OF.values())
        strange = sorted(self.model_fields_set & (every - _ONE_OF[self.kind]))
        if strange:
            raise ValueError(f"{strange[0]} does not apply to a notice of kind {self.kind}")
        if self.kind in _WEB:
            self._one_of("url", "url_env", "url_file", needed=True)
            self._one_of("secret_env", "secret_file")
        if self.kind == "mail":
            self._is_whole_mail()
        return self

    def _is_whole_mail(self) -> None:
        if self.host is None or self.sender is None:
            raise ValueError("needs host and sender: the SMTP server and the sender address")
        if not self.to and not self.for_jobs:
            raise ValueError("needs to, a list of addresses, or for_jobs: true")
        self._one_of("password_env", "password_file", needed=self.user is not None)
        if self.user is None and (self.password_env or self.password_file):
            raise ValueError("has a password and no user to log in as")
        if self.job_domains and not self.for_jobs:
            raise ValueError("has job_domains, which have no effect without for_jobs: true")

    def _one_of(self, *names: str, needed: bool = False) -> None:
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"has {' and '.join(given)}: leave out all but one")
        if needed and not given:
            raise ValueError(f"needs one of {', '.join(names)}")

    @property
    def smtp_port(self) -> int:
        return self.port or _PORTS[self.security]

    @property
    def retry_seconds(self) -> float:
        hours = _RETRY_HOURS.get(self.kind, 24.0) if self.retry_hours is None else self.retry_hours
        return hours * 3600


def secret_of(
    environ: dict[str, str], variable: str | None, file: Path | None, what: str
) -> str | None:
    """A secret from where the settings say. ValueError names the place, never the content."""
    if variable is not None:
        found = environ.get(variable, "")
        if not found:
            raise ValueError(f"{what}_env: the variable {variable} is not set")
        return found
    if file is None:
        return None
    try:
        found = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        problem = system_words(error) if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ValueError(f"{what}_file: {file}: {problem}") from None
    if not found:
        raise ValueError(f"{what}_file: {file} is empty")
    return found
