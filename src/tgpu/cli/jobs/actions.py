"""Commands that change jobs: cancel, hold, release, priority, complete, rerun."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from tgpu.cli.jobs.selecting import (
    PANEL,
    All,
    Name,
    SomeJobIds,
    State,
    Tenant,
    User,
    WantedJobs,
    act,
    plain_change,
)
from tgpu.cli.options import ApiUrl, JobIds, Json, complete_jobs, examples
from tgpu.text.instants import in_local_time

if TYPE_CHECKING:
    from tgpu.cli.jobs.targets import Done

CANCEL_EPILOG = examples(
    "tgpu cancel 12",
    "tgpu cancel 12 13 last",
    "tgpu cancel 7 --state pending        (the waiting jobs of array 7)",
    "tgpu cancel --name sweep",
    "tgpu cancel --all",
)
HOLD_EPILOG = examples("tgpu hold 12", "tgpu hold --name sweep", "tgpu release 12")
PRIORITY_EPILOG = examples(
    "tgpu priority 12 1000", "tgpu priority last -5", "tgpu priority --name urgent 900"
)
RELEASE_EPILOG = examples("tgpu release 12", "tgpu release --all")
COMPLETE_EPILOG = examples("tgpu submit --gpus 2 --lease", "tgpu complete last")
RERUN_EPILOG = examples(
    "tgpu rerun 12",
    "tgpu rerun 7                         (the failed jobs of array 7)",
    "tgpu rerun 7 --state cancelled,failed",
    "tgpu rerun --failed --since 1d",
)

_MOST_ALIKE: Final = 20


def cancel(
    jobs: SomeJobIds = None,
    *,
    is_all: All = False,
    state: State = None,
    name: Name = None,
    user: User = None,
    tenant: Tenant = None,
    all_pending: Annotated[
        bool, typer.Option("--all-pending", help="All your jobs that have not started.")
    ] = False,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> int:
    """Cancel jobs: stop running ones, remove waiting ones.

    A running job gets TERM, then KILL after a grace period; its GPUs are free when no process of it
    is left. All jobs are cancelled at once, so none of them starts meanwhile.
    """
    if all_pending:
        _given(jobs, all_pending, "--all-pending")
        state = state or "pending"
    wanted = WantedJobs(jobs, is_all, state, name, user, tenant)
    return act("cancel", wanted, as_json=as_json, api_url=api_url)


hold = plain_change("hold", "Keep waiting jobs from starting until `tgpu release`.")
release = plain_change("release", "Let held jobs start again.")


def priority(
    jobs: Annotated[
        list[str],
        typer.Argument(
            metavar="[JOB]... N",
            help="Jobs or whole arrays, then the priority: higher goes first; most jobs have 500.",
            autocompletion=complete_jobs,
        ),
    ],
    *,
    is_all: All = False,
    state: State = None,
    name: Name = None,
    user: User = None,
    tenant: Tenant = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> int:
    """Change the priority of waiting jobs, or of the waiting jobs of an array.

    The time it has waited still counts. A running job keeps its priority.
    """
    *names, number = jobs
    wanted = WantedJobs(names, is_all, state, name, user, tenant)
    if not names and not any((is_all, state, name, user, tenant)):
        from tgpu.cli.failures import bad_input

        problem = f"priority takes jobs and then a number, and there is only {number!r}"
        raise bad_input(problem, "as in: tgpu priority 12 1000")
    more = {"priority": _read_priority(number)}
    return act("priority", wanted, as_json=as_json, api_url=api_url, more=more)


def _read_priority(text: str) -> int:
    from tgpu.cli.failures import bad_input

    try:
        return int(text)
    except ValueError:
        problem = f"{text!r} is not a priority: a whole number, and higher goes first"
        raise bad_input(problem, "most jobs have 500: tgpu priority JOB 1000") from None


def complete(jobs: JobIds, as_json: Json = False, api_url: ApiUrl = None) -> int:
    """Give back the GPUs of leases."""
    from tgpu.cli.connect import connected
    from tgpu.cli.jobs.targets import on_each

    with connected(api_url) as client:
        return _report(on_each(client, jobs, client.complete_job, _live()), as_json)


def rerun(
    jobs: SomeJobIds = None,
    *,
    is_all: All = False,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="S[,S]",
            help="For arrays, or without ids: jobs in these states instead of failed ones.",
            rich_help_panel=PANEL,
        ),
    ] = None,
    name: Name = None,
    user: User = None,
    tenant: Tenant = None,
    failed: Annotated[
        bool,
        typer.Option("--failed", help="All your failed jobs that were not rerun yet."),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help="With --failed: only those that ended within this time."),
    ] = None,
    failure: Annotated[
        str | None,
        typer.Option(
            metavar="CODE[,CODE]", help="With --failed: only these kinds of failure, e.g. xid,node."
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Include jobs that were rerun already.")
    ] = False,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> int:
    """Queue jobs again, as new jobs with the same command, resources and environment.

    Of an array, the failed jobs run again as a new array, unless they were rerun already. A job
    given by its id runs again whatever its result.
    """
    if failed:
        _given(jobs, failed, "--failed")
        is_all = True
    wanted = WantedJobs(jobs, is_all, state, name, user, tenant)
    more: dict[str, object] = {"again": True} if again else {}
    return act(
        "rerun",
        wanted,
        as_json=as_json,
        api_url=api_url,
        more=more | _among(failed, since, failure),
    )


def _given(jobs: list[str] | None, flag: bool, option: str) -> list[str]:
    from tgpu.cli.failures import bad_input

    if bool(jobs) == flag:
        problem = "both jobs and" if jobs else "no job and no"
        raise bad_input(f"{problem} {option} given", f"name the jobs, or use {option}")
    return jobs or []


def _live() -> tuple[str, ...]:
    from tgpu.cli.render.jobs import LIVE

    return LIVE


def _among(failed: bool, since: str | None, failure: str | None) -> dict[str, object]:
    """Which of the failed jobs --since and --failure choose."""
    from math import ceil

    from tgpu.cli.failures import bad_input
    from tgpu.cli.options import read_option
    from tgpu.text.durations import parse_duration

    if (since or failure) and not failed:
        raise bad_input("--since and --failure choose among failed jobs", "add --failed")
    fields: dict[str, object] = {}
    if since is not None:
        seconds = ceil(read_option("--since", parse_duration, since))
        fields["ended_within_seconds"] = max(1, seconds)
    if failure is not None:
        fields["failures"] = sorted(read_option("--failure", _read_codes, failure))
    return fields


def _read_codes(text: str) -> frozenset[str]:
    from tgpu.cli.render.failures import CODES

    codes = frozenset(word.strip().replace("-", "_") for word in text.split(","))
    if unknown := sorted(codes - CODES.keys()):
        raise ValueError(f"{unknown[0]!r} is not a kind of failure: {', '.join(CODES)}")
    return codes


def _report(results: "list[Done]", as_json: bool) -> int:
    from tgpu.cli.exit_codes import ExitCode
    from tgpu.cli.output import show_json

    if as_json:
        show_json([_as_json(result) for result in results])
    else:
        _say_all(results)
    codes = [result.failure.exit_code for result in results if result.failure is not None]
    return codes[0] if codes else ExitCode.OK


def _as_json(result: "Done") -> dict[str, object]:
    from tgpu.wire.v1 import ActionAnswer

    if result.failure is not None:
        return {"job_id": result.job_id, **result.failure.as_json()}
    assert isinstance(result.answer, ActionAnswer)
    return result.answer.model_dump(mode="json")


def _say_all(results: "list[Done]") -> None:
    """A line for each; on a terminal, of many in a row that went alike the first and the last."""
    from itertools import groupby

    from tgpu.cli.output import say, width

    for _, run in groupby(results, _outcome):
        alike = list(run)
        if len(alike) <= _MOST_ALIKE or alike[0].failure is not None or width() is None:
            for result in alike:
                _say(result)
        else:
            _say(alike[0])
            say(f"… {len(alike) - 2:,} more")
            _say(alike[-1])


def _outcome(result: "Done") -> str:
    return str(getattr(result.answer, "message", ""))


def _say(result: "Done") -> None:
    from tgpu.cli.output import note, say
    from tgpu.cli.render.jobs import action_line
    from tgpu.wire.v1 import ActionAnswer

    if result.failure is not None:
        tail = f"\n  {result.failure.remedy}" if result.failure.remedy else ""
        note(f"tgpu: {in_local_time(result.failure.message)}{tail}")
    elif isinstance(result.answer, ActionAnswer):
        say(action_line(result.answer))
