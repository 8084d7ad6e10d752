"""`tgpu edit`: changes a waiting job, by options or in an editor."""

from typing import TYPE_CHECKING, Annotated

import typer

from tgpu.cli.options import ApiUrl, JobId, Json, complete_jobs, examples
from tgpu.cli.submit.command import (
    RESOURCES,
    WHEN,
    WHERE,
    GpuMem,
    GpuSize,
    Memory,
    TimeLimit,
)

if TYPE_CHECKING:
    from tgpu.client.http import Client
    from tgpu.wire.v1 import JobModel

EPILOG = examples(
    "tgpu edit 7 --gpus 1 --time 2h",
    "tgpu edit last --name second-try --priority 900",
    "tgpu edit 7 --after 5              (now depends on job 5 only)",
    "tgpu edit 7 --no-after --no-time   (no dependencies, no time limit)",
    "tgpu edit 7                        (edit its fields in $EDITOR)",
)


def edit(
    context: typer.Context,
    job: JobId,
    *,
    gpus: Annotated[
        str | None,
        typer.Option(metavar="N", help="Number of GPUs per worker.", rich_help_panel=RESOURCES),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=10_000, rich_help_panel=RESOURCES, help="Number of workers."
        ),
    ] = None,
    gpu_type: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="TYPE[,TYPE]",
            help="GPU type, e.g. A100; `any` for every type.",
            rich_help_panel=RESOURCES,
        ),
    ] = None,
    gpu_mem: GpuMem = None,
    gpu_size: GpuSize = None,
    cpus: Annotated[
        float | None, typer.Option(metavar="N", help="CPU cores.", rich_help_panel=RESOURCES)
    ] = None,
    mem: Memory = None,
    gpu_ids: Annotated[
        str | None,
        typer.Option(
            metavar="IDS", help="Only these GPUs: 0-3 or 0,2; `any`.", rich_help_panel=WHERE
        ),
    ] = None,
    not_gpu_ids: Annotated[
        str | None,
        typer.Option(metavar="IDS", help="Never these GPUs; `none`.", rich_help_panel=WHERE),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE[,NODE]", help="Only this node; `any`. Repeatable.", rich_help_panel=WHERE
        ),
    ] = None,
    not_node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE[,NODE]",
            help="Never this node; `none`. Repeatable.",
            rich_help_panel=WHERE,
        ),
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option(metavar="N", help="Higher goes first.", rich_help_panel=WHEN),
    ] = None,
    time: TimeLimit = None,
    no_time: Annotated[
        bool,
        typer.Option(
            "--no-time",
            help="Remove its time limit; the service's own stays.",
            rich_help_panel=WHEN,
        ),
    ] = False,
    deadline: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Deadline: 14:00, +2h; `none`.",
            rich_help_panel=WHEN,
        ),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID[,ID]",
            help="Replace its dependencies: start after these have completed. Repeatable.",
            rich_help_panel=WHEN,
            autocompletion=complete_jobs,
        ),
    ] = None,
    after_any: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID[,ID]",
            help="Replace its dependencies: start after these have ended. Repeatable.",
            rich_help_panel=WHEN,
            autocompletion=complete_jobs,
        ),
    ] = None,
    no_after: Annotated[
        bool, typer.Option("--no-after", help="Remove all dependencies.", rich_help_panel=WHEN)
    ] = False,
    retries: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of retries when it fails.", rich_help_panel=WHEN),
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="Name of the job.")] = None,
    queue: Annotated[
        str | None, typer.Option(metavar="NAME", help="Move it to this queue of its tenant.")
    ] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Change a waiting job, or all waiting jobs of an array.

    It is checked like a new submission and keeps its place in the queue.
    Without options its fields are opened in your editor ($VISUAL, $EDITOR).
    """
    from pydantic import ValidationError

    from tgpu.cli.connect import connected
    from tgpu.cli.environment import now_ms
    from tgpu.cli.failures import of_client_error, of_validation
    from tgpu.cli.jobs.edit_change import change_of
    from tgpu.cli.jobs.edit_in_editor import edit_in_editor, submit_command
    from tgpu.cli.option_words import typed_names
    from tgpu.cli.output import say, show_json
    from tgpu.cli.render.jobs import action_line
    from tgpu.cli.submit.drafts import job_options
    from tgpu.cli.submit.send import real_id
    from tgpu.cli.submit.submission import in_options
    from tgpu.client.errors import ClientError, NoService
    from tgpu.wire.job_change_v1 import JobChange

    said = job_options({name: context.params[name] for name in typed_names(context)})
    change = {name: value for name, value in said.items() if name != "job"}
    with connected(api_url) as client:
        model = _one_of(client, job)
        if not change:
            change = edit_in_editor(model, submit_command())
        if not change:
            say("nothing changed")
            return
        fields = change_of(change, model, now_ms(), lambda job_id: real_id(client, job_id))
        try:
            answer = client.edit_job(job, JobChange.model_validate(fields))
        except ValidationError as error:
            raise in_options(of_validation(error)) from error
        except NoService:
            raise
        except ClientError as error:
            raise in_options(of_client_error(error)) from error
    if as_json:
        show_json(answer)
    else:
        say(action_line(answer))


def _one_of(client: "Client", job: str) -> "JobModel":
    """The job, or the first element of an array: they are alike in what can be changed."""
    from tgpu.cli.jobs.targets import elements_of
    from tgpu.client.errors import ClientError

    try:
        return client.get_job(job)
    except ClientError as error:
        elements = elements_of(client, job, ["pending"]) if error.code == "JOB_NOT_FOUND" else []
        if not elements:
            raise
        return client.get_job(elements[0])
