"""How many of the GPUs that a job could use are free, in words: by type and by place."""

from tgpu.core.model.reasons import Reason
from tgpu.core.model.units import GPU, gpus_text


def free_text(reason: Reason) -> str:
    """ "0 of 8 GPUs free (4 A100, 4 H100)", "0 of 4 A100 free", "3 of 8 GPUs free, at most 2 on one
    machine": of a `gpus_busy`."""
    free, total = int(reason.fact("free")), int(reason.fact("total"))
    noun = str(reason.fact("gpu_type")) or ("GPU" if total == GPU else "GPUs")
    return f"{gpus_text(free)} of {gpus_text(total)} {noun} free{_types(reason)}{_apart(reason)}"


def _types(reason: Reason) -> str:
    types = str(reason.fact("types")).split(", ")
    if len(types) < 2:
        return ""
    facts = dict(reason.facts)
    each = []
    for gpu_type in types:
        free, total = (gpus_text(int(facts[f"{what}:{gpu_type}"])) for what in ("free", "total"))
        each.append(f"{free} of {total} {gpu_type}" if facts["free"] else f"{total} {gpu_type}")
    return f" ({', '.join(each)})"


def _apart(reason: Reason) -> str:
    """Why what is free is not enough, where it looks as if it were."""
    free, together = int(reason.fact("free")), int(reason.fact("together"))
    requested = int(reason.fact("requested"))
    if free < requested:
        return ""
    if together >= requested:
        return ", in pieces that are too small"
    one_type = "of one type" if ", " in str(reason.fact("types")) else ""
    one_node = "on one machine" if int(reason.fact("nodes")) > 1 and reason.fact("node") else ""
    return f", at most {gpus_text(together)} {' '.join(filter(None, (one_type, one_node)))}"
