"""Commands that follow jobs: logs, wait."""

from typing import Annotated

import typer

from tgpu.cli.options import ApiUrl, JobId, JobIds, Json, examples

LOGS_EPILOG = examples(
    "tgpu logs 12",
    "tgpu logs -f last",
    "tgpu logs 12 --tail 20 --stderr",
    "tgpu logs 12 --attempt 1",
)
WAIT_EPILOG = examples(
    "tgpu wait 12 && echo done",
    "tgpu wait 12 13 14 --timeout 2h",
    "tgpu wait last; echo $?             (143 if it was cancelled)",
)


def logs(
    job: JobId,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow until the job ends.")
    ] = False,
    stdout: Annotated[bool, typer.Option("--stdout", help="Only standard output.")] = False,
    stderr: Annotated[bool, typer.Option("--stderr", help="Only standard error.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", metavar="N", min=0, help="Only the last N lines.")
    ] = None,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", metavar="N", min=1, help="Attempt number. Default: the newest."),
    ] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Print the output of a job, standard output and standard error separately.

    For a whole array, one job after the other, with its id before each line.
    """
    from tgpu.cli.connect import connected
    from tgpu.cli.failures import bad_input
    from tgpu.cli.jobs.array_logs import no_following, print_array_log
    from tgpu.cli.jobs.arrays import job_or_array
    from tgpu.cli.jobs.reading import WantedLog, follow_log, print_log
    from tgpu.wire.arrays_v1 import ArraySummary

    if follow and as_json:
        raise bad_input("--follow and --json exclude each other", "leave one of them out")
    chosen = [name for name, on in (("stdout", stdout), ("stderr", stderr)) if on]
    wanted = WantedLog(job, tuple(chosen) or ("stdout", "stderr"), tail, attempt)
    with connected(api_url) as client:
        found = job_or_array(client, job, client.get_job)
        if isinstance(found, ArraySummary):
            if follow:
                raise no_following(found)
            print_array_log(client, found, wanted.streams, tail, as_json=as_json)
        elif follow:
            follow_log(client, wanted)
        else:
            print_log(client, wanted, as_json)


def wait(
    jobs: JobIds,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help="Give up after this time, with exit code 124, e.g. 30s."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> int:
    """Wait until jobs end, and return the exit code of the job.

    For several jobs, the first non-zero code in the order given; for a whole array, the highest. A
    job killed by a signal counts as 128 + signal, a cancelled one as 143, one that failed without a
    code as 1.
    """
    from tgpu.cli.connect import connected
    from tgpu.cli.jobs.reading import wait_for
    from tgpu.cli.options import read_option
    from tgpu.text.durations import parse_duration

    seconds = read_option("--timeout", parse_duration, timeout) if timeout else None
    with connected(api_url) as client:
        return wait_for(client, jobs, seconds, quiet=quiet, as_json=as_json)
