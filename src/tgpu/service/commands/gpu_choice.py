"""Resolves GPU names; a bare index works only if jobs run on one node."""

from collections.abc import Iterable, Sequence
from typing import Final

from tgpu.core.capacity.ledger import Ledger
from tgpu.core.errors import Conflict, InvalidRequest, NotFound
from tgpu.core.model.ids import NodeId
from tgpu.core.model.node import GpuChoice, GpuName
from tgpu.text.gpu_names import as_word, choices_text, names_text

NO_ENGINE: Final = "no engine runs jobs on it"


def chosen_gpu(ledger: Ledger, choice: GpuChoice) -> GpuName:
    """The one that is meant; refused with all there are where it is none, or may be several."""
    if isinstance(choice, int):
        refuse_bare(ledger, "GPU", [choice])
        found = [GpuName(node_id, choice) for node_id in ledger.nodes]
    else:
        found = [GpuName(*choice)]
    for name in found:
        use = ledger.nodes.get(name.node_id)
        if use is not None and any(gpu.index == name.gpu_index for gpu in use.node.gpus):
            return name
        if name.node_id in ledger.reporting:
            raise Conflict(
                f"node {name.node_id} only reports: {NO_ENGINE}",
                [{"node": name.node_id, "there": gpus_there(ledger)}],
            )
    has = "there are" if ledger.has_several_nodes else "this machine has"
    raise NotFound("GPU", str(as_word(choice)), f"{has}: {gpus_there(ledger) or 'none'}")


def refuse_bare(ledger: Ledger, field: str, choices: Iterable[GpuChoice]) -> None:
    """A bare index is refused where more than one node could be meant."""
    bare = [choice for choice in choices if isinstance(choice, int)]
    if bare and ledger.has_several_nodes:
        remedy = f"jobs run on several nodes, so name GPUs with their node: {gpus_there(ledger)}"
        raise InvalidRequest(field, bare[0] if len(bare) == 1 else bare, remedy)


def gpus_there(ledger: Ledger) -> str:
    """All that jobs can have: "0, 1" on one node, "a/0-3,b/0-1" on several."""
    names = all_gpus(ledger)
    if ledger.has_several_nodes:
        return choices_text(names)
    return ", ".join(str(name.gpu_index) for name in names)


def all_gpus(ledger: Ledger) -> Sequence[GpuName]:
    """By node, then index."""
    return [
        GpuName(node_id, gpu.index)
        for node_id in ledger.node_ids()
        for gpu in ledger.node(node_id).node.gpus
    ]


def gpu_word(ledger: Ledger, node_id: NodeId, index: int) -> str:
    """As people are told of it: bare while there is one node."""
    return names_text([(node_id, index)], several_nodes=ledger.has_several_nodes)
