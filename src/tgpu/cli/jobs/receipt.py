"""The command `receipt`: what a job used."""

from tgpu.cli.options import ApiUrl, JobId, Json, examples

EPILOG = examples("tgpu receipt 12", "tgpu receipt last --json | jq .gpu_hours")


def receipt(job: JobId, as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Show what a job used: waiting and running time, GPU-hours per attempt, cost.

    For a whole array, the total of its jobs.
    """
    from tgpu.cli.connect import connected
    from tgpu.cli.environment import now_ms
    from tgpu.cli.jobs.arrays import job_or_array
    from tgpu.cli.output import show_json, show_lines, width
    from tgpu.cli.render.arrays import array_receipt
    from tgpu.cli.render.receipt import receipt_lines
    from tgpu.wire.arrays_v1 import ArraySummary

    with connected(api_url) as client:
        found = job_or_array(client, job, client.receipt)
    if as_json:
        show_json(found)
    elif isinstance(found, ArraySummary):
        show_lines(array_receipt(found, now_ms()))
    else:
        show_lines(receipt_lines(found, now_ms(), width()))
