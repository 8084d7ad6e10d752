"""`tgpu replay`: repeats a past cycle, with what was decided and why."""

from typing import TYPE_CHECKING, Annotated

import typer

from tgpu.cli.failures import Failure, bad_input
from tgpu.cli.journals import Config, Database, DataDir, JournalFile, JournalSource, opened, reading
from tgpu.cli.options import ApiUrl, Json, examples, read_option
from tgpu.text.past_instants import parse_past

if TYPE_CHECKING:
    from tgpu.journal.replay import ReplayTarget

EPILOG = examples(
    "tgpu replay --job 12",
    "tgpu replay --start-of 34 --job 12",
    'tgpu replay journal.ndjson.gz --at "tue 14:30"',
    "tgpu replay journal.ndjson.gz --at 5120 --json",
)


def replay(
    file: JournalFile = None,
    *,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="SEQ|TIME", help="Number of an event, or a time: tue 14:30, 2h (ago)."
        ),
    ] = None,
    start_of: Annotated[
        str | None, typer.Option("--start-of", metavar="JOB", help="When this job started.")
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="JOB",
            help="Effect on this job. Without --at: every cycle in which other jobs started "
            "before it.",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="N", help="Number of waiting jobs to explain.")
    ] = 20,
    database: Database = None,
    config: Config = None,
    data_dir: DataDir = None,
    api_url: ApiUrl = None,
    as_json: Json = False,
) -> None:
    """Show what the scheduler decided at a past moment, and why other jobs waited.

    The state at that moment is rebuilt from the journal, and the service's own code repeats the
    cycle with the settings of that time. The result is compared with the record.
    """
    if at is not None and start_of is not None:
        raise bad_input("--at and --start-of both name a moment: give one")
    if at is None and start_of is None and job is None:
        raise bad_input("which moment? give --at SEQ, --at TIME, --start-of JOB or --job JOB")
    source = JournalSource(file, api_url, database, config, data_dir)
    if at is None and start_of is None:
        assert job is not None
        _tell_passages(source, job, as_json)
        return
    _tell_moment(source, _target(at, start_of), job, limit, as_json)


def _target(at: str | None, start_of: str | None) -> "ReplayTarget":
    from tgpu.cli.environment import now_ms
    from tgpu.core.model.ids import JobId
    from tgpu.journal.replay import ReplayTarget

    if at is None:
        return ReplayTarget(start_of=JobId(start_of or ""))
    if at.isascii() and at.isdigit():
        return ReplayTarget(seq=int(at))
    now = now_ms()
    return ReplayTarget(at=read_option("--at", lambda text: parse_past(text, now), at))


def _tell_moment(
    source: JournalSource, target: "ReplayTarget", job: str | None, limit: int, as_json: bool
) -> None:
    from tgpu.app import replaying
    from tgpu.cli.output import note, show_json, show_lines, width
    from tgpu.cli.render.replay import replay_lines
    from tgpu.core.model.ids import JobId

    with opened(source) as journal, reading(journal.header.last_seq) as tell:
        try:
            answer = replaying.replay(
                journal,
                target,
                job_id=None if job is None else JobId(job),
                most=limit,
                tell=tell,
            )
        except replaying.NoSuchMoment as error:
            raise _no_such_moment(error) from error
        except replaying.CannotServe as error:
            raise Failure(f"the settings of that time are not available here: {error}") from error
    if as_json:
        show_json(answer)
        return
    show_lines(replay_lines(answer, width()))
    for text in answer.notes:
        note(f"note: {text}")


def _no_such_moment(error: ValueError) -> Failure:
    from tgpu.cli.exit_codes import ExitCode
    from tgpu.text.instants import in_local_time

    sentence = in_local_time(str(error))
    return Failure(sentence, exit_code=ExitCode.NO_SUCH_JOB, code="NOT_FOUND")


def _tell_passages(source: JournalSource, job: str, as_json: bool) -> None:
    from tgpu.app import replaying
    from tgpu.cli.output import say, show_json, show_lines, width
    from tgpu.cli.render.replay import passage_lines
    from tgpu.core.model.ids import JobId

    with opened(source) as journal, reading(journal.header.last_seq) as tell:
        try:
            found = replaying.passages(journal, JobId(job), tell=tell)
        except replaying.NoSuchMoment as error:
            raise _no_such_moment(error) from error
        except replaying.CannotServe as error:
            raise Failure(f"the settings of that time are not available here: {error}") from error
    if as_json:
        show_json({"job_id": job, "cycles": [one.model_dump(mode="json") for one in found]})
        return
    if not found:
        say(f"no other job started while job {job} waited")
        return
    show_lines(passage_lines(job, found, width()))
