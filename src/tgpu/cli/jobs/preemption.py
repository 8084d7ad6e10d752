"""Commands about preemption: checkpoint marks saved work, preemptions lists the receipts."""

from typing import Annotated

import typer

from tgpu.cli.options import ApiUrl, Json, complete_jobs, examples

CHECKPOINT_EPILOG = examples("tgpu checkpoint", "tgpu checkpoint 12")
PREEMPTIONS_EPILOG = examples(
    "tgpu preemptions",
    "tgpu preemptions --tenant vision",
    "tgpu preemptions --json | jq '.preemptions[].lost_gpu_seconds'",
)


def checkpoint(
    job: Annotated[
        str,
        typer.Argument(
            metavar="[JOB]",
            envvar="TGPU_JOB_ID",
            help="Id of a running job; inside a job, that job.",
            autocompletion=complete_jobs,
        ),
    ] = "",
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Mark that a running job has just saved its work.

    Work up to this point is not lost when the job is preempted, and the scheduler preempts the jobs
    that lose least.
    """
    from tgpu.cli.connect import connected
    from tgpu.cli.failures import bad_input
    from tgpu.cli.output import say, show_json
    from tgpu.cli.render.jobs import action_line

    if not job:
        raise bad_input("no job given, and this is not inside one", "name it: tgpu checkpoint JOB")
    with connected(api_url) as client:
        answer = client.checkpoint_job(job)
    if as_json:
        show_json(answer)
    else:
        say(action_line(answer))


def preemptions(
    tenant: Annotated[
        str | None, typer.Option(metavar="TENANT", help="Only jobs of this tenant.")
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Maximum number to show.")
    ] = 50,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Show preemptions, newest first: which job, for which, why, and the GPU time lost."""
    from tgpu.cli.connect import connected
    from tgpu.cli.output import note, show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.render.preemptions import preemption_grid

    with connected(api_url) as client:
        found = client.preemptions(tenant_id=tenant, limit=limit)
    if as_json:
        show_json(found)
    elif not found.preemptions:
        note("no job has been preempted")
    else:
        show_lines(lay_out(preemption_grid(found), width()))
