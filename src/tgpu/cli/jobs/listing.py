"""Commands that look at jobs: list, watch, show, why."""

from typing import TYPE_CHECKING, Annotated

import typer

from tgpu.cli.options import ApiUrl, JobId, Json, examples

if TYPE_CHECKING:
    from tgpu.cli.jobs.jobs_query import Filters, Found, TableShape
    from tgpu.client.http import Client

LIST_EPILOG = examples(
    "tgpu list",
    "tgpu list --state running",
    "tgpu list --all --name train",
    "tgpu list --expand --array 12",
    "tgpu list --columns job,user,state,left",
    "tgpu list --json | jq -r '.jobs[].job_id'",
)
WATCH_EPILOG = examples("tgpu watch", "tgpu watch --interval 10s", "tgpu watch --state running")
SHOW_EPILOG = examples("tgpu show 12", "tgpu show last --json")
WHY_EPILOG = examples(
    "tgpu why 12", "tgpu why last", "tgpu why last --json | jq -r .change.command"
)

State = Annotated[
    str | None,
    typer.Option(
        "--state",
        "--status",
        metavar="S[,S]",
        help="Only pending, running, completed, failed, cancelled, …",
    ),
]
Tenant = Annotated[str | None, typer.Option(metavar="ID", help="Only jobs of this tenant.")]
Name = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Only jobs with this in their name.")
]
User = Annotated[str | None, typer.Option(metavar="NAME", help="Only jobs of this user.")]
ArrayId = Annotated[
    str | None,
    typer.Option("--array", metavar="ID", help="Only elements of this array or sweep."),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", "-n", metavar="N", min=1, help="At most N live and N ended jobs."),
]
All = Annotated[bool, typer.Option("--all", "-a", help="Show all jobs, however old.")]
Fold = Annotated[
    bool | None,
    typer.Option(
        "--fold/--expand",
        help="An array or sweep as one row, or all its elements. Default: --fold, --expand in JSON "
        "and with --array.",
        show_default=False,
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(metavar="C[,C]", help="Columns to show: job, name, state, user, left, …"),
]
Wide = Annotated[bool, typer.Option("--wide", "-w", help="Show all columns in full.")]


def list_jobs(
    *,
    state: State = None,
    tenant: Tenant = None,
    name: Name = None,
    user: User = None,
    array: ArrayId = None,
    limit: Limit = None,
    all_jobs: All = False,
    fold: Fold = None,
    columns: Columns = None,
    wide: Wide = False,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Show the jobs: running, then waiting with the reason, then the last ones that ended.

    An array or sweep is one row with its progress. Without --all, only the last 10 ended rows are
    shown. The last line counts all jobs.
    """
    from tgpu.cli.connect import connected
    from tgpu.cli.jobs.jobs_query import Filters, TableShape, find_jobs, read_columns, read_states
    from tgpu.cli.jobs.unknown_tenant import refuse_unknown_tenant
    from tgpu.cli.output import show_json
    from tgpu.wire.v1 import JobList

    folds = (not as_json and array is None) if fold is None else fold
    filters = Filters(read_states(state), tenant, name, user, array, limit, all_jobs, folds)
    shape = TableShape(read_columns(columns), wide)
    with connected(api_url) as client:
        found = find_jobs(client, filters)
        if not found.jobs:
            refuse_unknown_tenant(client, tenant)
        if as_json:
            show_json(JobList(jobs=found.jobs, next_cursor=None))
        else:
            _show_list(client, found, filters, shape)


def watch(
    *,
    interval: Annotated[str, typer.Option(metavar="SPAN", help="Refresh interval.")] = "2s",
    state: State = None,
    tenant: Tenant = None,
    name: Name = None,
    user: User = None,
    array: ArrayId = None,
    limit: Limit = None,
    all_jobs: All = False,
    fold: Fold = None,
    columns: Columns = None,
    api_url: ApiUrl = None,
) -> None:
    """Refresh the list of jobs until Ctrl-C."""
    from tgpu.cli.connect import connected
    from tgpu.cli.jobs.jobs_query import Filters, TableShape, list_frame, read_columns, read_states
    from tgpu.cli.live import repeat
    from tgpu.cli.options import read_option
    from tgpu.text.durations import parse_duration

    folds = array is None if fold is None else fold
    filters = Filters(read_states(state), tenant, name, user, array, limit, all_jobs, folds)
    shape = TableShape(read_columns(columns))
    seconds = read_option("--interval", parse_duration, interval)
    with connected(api_url) as client:
        repeat(lambda width: list_frame(client, filters, width, shape), seconds)


def show(job: JobId, as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Show the details of a job or a whole array. Secrets are masked."""
    from tgpu.cli.connect import connected
    from tgpu.cli.environment import now_ms
    from tgpu.cli.jobs.arrays import job_or_array
    from tgpu.cli.output import show_json, show_lines
    from tgpu.cli.render.arrays import array_facts
    from tgpu.cli.render.jobs import job_facts
    from tgpu.wire.arrays_v1 import ArraySummary

    with connected(api_url) as client:
        found = job_or_array(client, job, client.get_job)
    if as_json:
        show_json(found)
    elif isinstance(found, ArraySummary):
        show_lines(array_facts(found, now_ms()))
    else:
        show_lines(job_facts(found, now_ms()))


def why(job: JobId, as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Explain why a job waits, and what would start it.

    Shows the reason, the jobs that block it and those ahead of it, its latest start if known, and
    the smallest change that would start it now. For a whole array: its next job.
    """
    from tgpu.cli.connect import connected
    from tgpu.cli.environment import now_ms
    from tgpu.cli.jobs.arrays import job_or_array
    from tgpu.cli.output import say, show_json, show_lines, width
    from tgpu.cli.render.arrays import counts_text
    from tgpu.cli.render.why import next_line, why_lines
    from tgpu.wire.arrays_v1 import ArraySummary

    with connected(api_url) as client:
        answer = job_or_array(client, job, client.why)
        array = answer if isinstance(answer, ArraySummary) else None
        if array is not None and array.next_waiting is not None:
            answer = client.why(array.next_waiting)
    if as_json:
        show_json(answer)
        return
    if array is not None:
        say(f"array {array.array_id}: {counts_text(array)}")
    if isinstance(answer, ArraySummary):
        return
    show_lines(why_lines(answer, now_ms(), width()))
    if line := next_line(answer):
        say(line)  # never cut: it is there to be copied


def _show_list(client: "Client", found: "Found", filters: "Filters", shape: "TableShape") -> None:
    from tgpu.cli.jobs.jobs_query import counts_note, list_lines, more_note
    from tgpu.cli.output import note, show_lines, width

    show_lines(list_lines(found.jobs, width(), shape), crop=not shape.wide)
    if not found.jobs and not filters.narrows:
        note(_NONE_YET)
        return
    if not found.jobs:
        note("no such jobs")
    elif found.more:
        note(more_note(found))
    note(counts_note(client, filters))


_NONE_YET = "no jobs yet; submit one with: tgpu submit --gpus 1 -- python train.py"
