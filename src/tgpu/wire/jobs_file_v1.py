"""The jobs file over `/api/v1/jobs-file`."""

from pydantic import BaseModel, ConfigDict


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class JobsFileLine(_Model):
    """A line of the file, except comments."""

    line: int
    text: str  # script and arguments; empty where it could not be read
    job_id: str | None  # the newest job made of it
    state: str | None  # of that job
    tries: int  # jobs made of it
    problem: str | None  # why it is not used


class JobsFileAnswer(_Model):
    """The watched file, as last read."""

    path: str | None  # null: none is watched
    exists: bool
    problem: str | None  # of the file as a whole
    lines: list[JobsFileLine]
