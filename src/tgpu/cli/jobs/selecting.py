"""Which jobs a command acts on: ids and arrays, or conditions. Sent as one request."""

from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from tgpu.cli.options import ApiUrl, Json, complete_jobs
from tgpu.text.instants import in_local_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tgpu.wire.selection_v1 import ChangeName

EVERYBODY: Final = "*"
PANEL: Final = "Instead of ids, or to filter them"

SomeJobIds = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[JOB]...",
        help="Ids of jobs or of whole arrays, or `last` for the newest.",
        autocompletion=complete_jobs,
    ),
]
All = Annotated[bool, typer.Option("--all", help="All your jobs.", rich_help_panel=PANEL)]
State = Annotated[
    str | None,
    typer.Option(
        "--state", metavar="S[,S]", help="Only pending, running, …", rich_help_panel=PANEL
    ),
]
Name = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Only jobs with this in their name.", rich_help_panel=PANEL),
]
User = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"Jobs of this user instead of yours; '{EVERYBODY}' for everybody's.",
        rich_help_panel=PANEL,
    ),
]
Tenant = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Only jobs of this tenant.", rich_help_panel=PANEL),
]


class WantedJobs(NamedTuple):
    """The options of one command line."""

    jobs: list[str] | None
    is_all: bool = False
    states: str | None = None
    name: str | None = None
    user: str | None = None
    tenant: str | None = None


def act(
    action: "ChangeName",
    wanted: WantedJobs,
    *,
    as_json: bool,
    api_url: str | None,
    more: "Mapping[str, object] | None" = None,
) -> int:
    """Send it, and say in one line what came of it. `more`: fields of this action alone."""
    from tgpu.cli.connect import connected
    from tgpu.cli.exit_codes import ExitCode
    from tgpu.cli.output import note, say, show_json
    from tgpu.wire.selection_v1 import SelectionRequest

    fields = request_fields(wanted, is_rerun=action == "rerun")
    request = SelectionRequest.model_validate({"action": action, **fields, **(more or {})})
    with connected(api_url) as client:
        answer = client.select(request)
    if as_json:
        show_json(answer)
    else:
        say(in_local_time(answer.message))
        for warning in answer.warnings:
            note(f"tgpu: {in_local_time(warning)}")
    return ExitCode.OK


def plain_change(action: "ChangeName", text: str) -> "Callable[..., int]":
    """The command of an action that is told nothing but the jobs; `text` is its help."""

    def change(
        jobs: SomeJobIds = None,
        *,
        is_all: All = False,
        state: State = None,
        name: Name = None,
        user: User = None,
        tenant: Tenant = None,
        as_json: Json = False,
        api_url: ApiUrl = None,
    ) -> int:
        wanted = WantedJobs(jobs, is_all, state, name, user, tenant)
        return act(action, wanted, as_json=as_json, api_url=api_url)

    change.__name__, change.__doc__ = action, text
    return change


def request_fields(wanted: WantedJobs, *, is_rerun: bool = False) -> dict[str, object]:
    """Without ids it is about the caller's own jobs, unless another user is named."""
    from tgpu.cli.environment import user_name
    from tgpu.cli.failures import bad_input
    from tgpu.cli.jobs.jobs_query import read_states
    from tgpu.cli.render.jobs import ENDED, LIVE

    states = list(read_states(wanted.states))
    over = [state for state in states if state in ENDED]
    if over and not is_rerun:
        remedy = f"use {', '.join(LIVE)}"
        raise bad_input(f"--state: {over[0]} jobs have ended and cannot be changed", remedy)
    conditions = (wanted.is_all, states, wanted.name, wanted.user, wanted.tenant)
    if not wanted.jobs and not any(conditions):
        remedy = "name jobs, or select them with --all, --state, --name, --user or --tenant"
        raise bad_input("no job given", remedy)
    if wanted.jobs and wanted.is_all:
        raise bad_input("both jobs and --all given", "name the jobs, or use --all")
    fields: dict[str, object] = {
        "jobs": wanted.jobs,
        "all": wanted.is_all or wanted.user == EVERYBODY,
        "states": states,
        "name": wanted.name,
        "tenant_id": wanted.tenant,
        "user": None if wanted.user == EVERYBODY else wanted.user,
    }
    if not wanted.jobs and wanted.user is None:
        fields |= {"mine": True, "user": user_name()}
    return {name: value for name, value in fields.items() if value}
