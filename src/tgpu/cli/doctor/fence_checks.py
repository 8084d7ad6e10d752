"""A check of `tgpu doctor`: whether jobs can open only their own GPUs."""

from typing import Final

from tgpu.cli.findings import Check, FindingLevel
from tgpu.client.errors import ClientError
from tgpu.client.http import Client

_AS_ROOT: Final = "run the service as root: sudo tgpu service install --system"


def gpu_fence(client: Client) -> list[Check]:
    """As the service has it, which is the one that starts the jobs. None where it cannot say."""
    try:
        found = [node.gpu_fence for node in client.nodes().nodes if node.source == "local"]
    except ClientError:  # an older service, or not for this caller to know
        return []
    if not found or not found[0]:
        return []
    problem = found[0].removeprefix("no: ")
    if problem == found[0]:
        return [Check("fence", FindingLevel.OK, f"a job can open only its own GPUs ({problem})")]
    finding = f"a job can open other GPUs too: {problem}"
    if problem == "the GPUs are simulated":
        return [Check("fence", FindingLevel.OK, f"GPUs are not isolated: {problem}")]
    remedy = "set engine.fence_gpus to auto" if "engine.fence_gpus" in problem else _AS_ROOT
    return [Check("fence", FindingLevel.WARN, finding, remedy)]
