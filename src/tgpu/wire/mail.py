"""Mail about a job: the form of addresses, and the events."""

from typing import Annotated, Final, Literal, get_args

from pydantic import Field

# What mail servers really have; quotes, comments and spaces stay out of headers.
ADDRESS: Final = (
    r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?$"
)
MailAddress = Annotated[str, Field(max_length=320, pattern=ADDRESS)]
MailEvent = Literal["start", "end", "failure", "preemption", "idle", "deadline"]
MAIL_EVENTS: Final[tuple[str, ...]] = get_args(MailEvent)
