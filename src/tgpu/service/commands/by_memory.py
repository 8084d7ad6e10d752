"""GPU fractions count by the larger of their compute share and memory share.

A quarter of the compute with half of the memory takes half of a GPU, for nobody else could use more
of it than the other half. What the job may compute with stays the quarter it asked for.
"""

from collections.abc import Iterable
from dataclasses import replace

from tgpu.core.model.node import Node
from tgpu.core.model.units import GPU, GPU_STEP, gpus_text, memory_text
from tgpu.core.placement.place import allows_node, allows_type
from tgpu.service.commands.submission import Submission


def counted_by_memory(submission: Submission, nodes: Iterable[Node]) -> tuple[Submission, str]:
    """With the part of a GPU that its memory takes where that is more, and a note about it."""
    request = submission.request
    asked, _, _ = request.of_a_worker()
    if asked >= GPU or not request.gpu_mem_mib:
        return submission, ""
    sizes = [
        gpu.mem_mib
        for node in nodes
        if allows_node(node, request)
        for gpu in node.gpus
        if allows_type(request, gpu.gpu_type)
    ]
    memory, largest = request.gpu_mem_mib // request.workers, max(sizes, default=0)
    if not largest or memory > largest:
        return submission, ""  # refused later, with what there is
    steps = -(-memory * GPU // (largest * GPU_STEP))
    needed = steps * GPU_STEP
    if needed <= asked:
        return submission, ""
    note = (
        f"{memory_text(memory)} of {memory_text(largest)} is {gpus_text(needed)} of a GPU, so the "
        f"job counts as that; it computes with {gpus_text(asked)} of it"
    )
    counted = replace(request, gpu_millis=needed * request.workers)
    options = replace(submission.options, compute_millis=asked)
    return replace(submission, request=counted, options=options), note
