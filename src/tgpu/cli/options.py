"""Options and arguments that several commands share, and the examples under their help."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from tgpu.cli.failures import bad_option

_T = TypeVar("_T")


def examples(*lines: str) -> str:
    """An epilog with one example a line; brackets would be read as markup."""
    escaped = [line.replace("[", "\\[") for line in lines]
    # The empty line first keeps Typer from taking the indentation of the examples away.
    return "\n".join(["", "[bold]Examples[/bold]", *(f"  {line}" for line in escaped)])


def read_option(option: str, parse: Callable[[str], _T], text: str) -> _T:
    """The value of an option; what is wrong with it becomes bad input that names the option."""
    try:
        return parse(text)
    except ValueError as error:
        raise bad_option(option, error) from error


def complete_jobs(incomplete: str) -> list[tuple[str, str]]:
    """Ids for the shell's completion. Silent and quick: a slow Tab is worse than none."""
    try:
        from tgpu.cli.connect import open_client
        from tgpu.cli.render.jobs import shown_state, title

        with open_client(None, timeout_seconds=0.5) as client:
            jobs = client.list_jobs(limit=100).jobs
        found = [(job.job_id, f"{shown_state(job)}: {title(job)}") for job in jobs]
    except Exception:
        found = []
    return [item for item in [*found, ("last", "the newest job")] if item[0].startswith(incomplete)]


def complete_tenants(incomplete: str) -> list[str]:
    """The caller's own, as quick and silent."""
    try:
        from tgpu.cli.connect import open_client

        with open_client(None, timeout_seconds=0.5) as client:
            found = [tenant.id for tenant in client.list_tenants().tenants]
    except Exception:
        found = []
    return [name for name in found if name.startswith(incomplete)]


JobId = Annotated[
    str,
    typer.Argument(
        metavar="JOB", help="Id of a job, or `last` for the newest.", autocompletion=complete_jobs
    ),
]
JobIds = Annotated[
    list[str],
    typer.Argument(
        metavar="JOB",
        help="Ids of jobs or of whole arrays, or `last` for the newest.",
        autocompletion=complete_jobs,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def _typed_url(context: typer.Context, value: str | None) -> str | None:
    """TGPU_URL yields to what was typed before the command: `tgpu --api-url URL cancel 3`."""
    source = context.get_parameter_source("api_url")
    if source is not None and source.name == "ENVIRONMENT":
        typed: str | None = context.find_root().params.get("api_url")
        return typed or value
    return value


ApiUrl = Annotated[
    str | None,
    typer.Option(
        "--api-url",
        envvar="TGPU_URL",
        callback=_typed_url,
        metavar="URL",
        help="Talk to this scheduler: http://host:port or unix:/path.",
        rich_help_panel="Connection",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Where the scheduler keeps its data. Default: ~/.local/share/tgpu.",
    ),
]
