"""Follows the events: parses server-sent events, and resumes after a lost connection."""

import time
from collections.abc import Iterator
from typing import Final

from pydantic import ValidationError

from tgpu.client import calls
from tgpu.client.call import Call
from tgpu.client.errors import BadAnswer, ClientError, Unavailable, may_pass
from tgpu.client.steps import LOOKS
from tgpu.wire.events_v1 import EventModel
from tgpu.wire.v1 import ErrorAnswer

# The service gives a sign of life every 15 seconds; after three that did not come it is gone.
SILENCE_SECONDS: Final = 45.0


class Watch:
    """One reader of events over any number of connections: no gap, and nothing twice.

    `position` is the number of the last event that was passed on. It moves only with whole
    events, so that one that was cut off in the middle comes again.
    """

    def __init__(
        self,
        *,
        after: int | None,
        job_id: str | None,
        tenant_id: str | None,
        readings: bool,
        patience_seconds: float,
    ) -> None:
        self.position = after
        self._job_id = job_id
        self._tenant_id = tenant_id
        self._readings = readings
        self._patience = patience_seconds
        self._heard_at = time.monotonic()
        self._pause = LOOKS.first_seconds
        self._rest = b""
        self._fields: dict[str, str] = {}

    def call(self) -> Call[None]:
        """The next connection, from where the last one ended."""
        self._rest = b""
        self._fields = {}
        return calls.events(self.position, self._job_id, self._tenant_id, self._readings)

    def take(self, data: bytes) -> Iterator[EventModel]:
        """The events that are whole with these bytes. Raises what the service says instead."""
        self._heard_at = time.monotonic()
        self._pause = LOOKS.first_seconds
        # Not by a text reader's lines: job names may hold other characters that end lines there.
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.strip():
                self._take_field(line.decode(errors="replace").rstrip("\r"))
                continue
            event = self._whole_event()
            if event is not None:
                yield event

    def lost(self, error: ClientError) -> None:
        """Raises the error where another connection would not help, or took too long."""
        if not may_pass(error) or time.monotonic() - self._heard_at > self._patience:
            raise error

    def pause_seconds(self) -> float:
        """How long to wait before the next connection."""
        pause = self._pause
        self._pause = LOOKS.after(pause)
        return pause

    def _take_field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data" and "data" in self._fields:
            value = f"{self._fields['data']}\n{value}"
        if name:  # without: a comment
            self._fields[name] = value

    def _whole_event(self) -> EventModel | None:
        fields, self._fields = self._fields, {}
        data = fields.get("data")
        try:
            if fields.get("event") == "error":
                raise _refusal(data or "")
            event = None if data is None else EventModel.model_validate_json(data)
            if "id" in fields:
                self.position = int(fields["id"])
        except (ValidationError, ValueError) as error:
            raise BadAnswer("/api/v1/events", f"an event that is none: {error}", 200) from error
        return event


def _refusal(data: str) -> ClientError:
    error = ErrorAnswer.model_validate_json(data, extra="ignore").error
    # A reader that was too slow may go on from where it was; anything else stays as it is.
    kind = Unavailable if error.code in ("SLOW_READER", "UNAVAILABLE") else ClientError
    return kind(error.code, error.message, error.details)
