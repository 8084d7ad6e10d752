"""What an attempt is told of its place. Engines call this once they know it. Pure.

The scheduler alone may set these variables, so they win over those of the submitter. What an engine
does not know it leaves out: where it has picked GPUs that it cannot name, whoever picked them says
which they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tgpu.core.model.ids import NodeId
from tgpu.core.model.node import Gpu, Part
from tgpu.core.model.units import GPU, gpus_text
from tgpu.engines.api import Launch
from tgpu.jobs_file.script_command import ASSIGNED

LOOPBACK: Final = "127.0.0.1"
_OF_GPUS: Final = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "TGPU_GPUS")


def placed(
    launch: Launch,
    parts: Sequence[Part] | None = None,
    *,
    master: str | None = None,
    log_dir: str | None = None,
) -> Launch:
    """The launch with the variables of its place in it: `env`, and `workers` where it is a gang.

    `parts` are where its workers are, by rank; None: where its placement says. `master` is under
    which name the others reach the first of them: unless told, its node, or loopback where all are
    on one.
    """
    if parts is None:
        parts = () if launch.placement is None else launch.placement.parts()
    env = {**launch.env} if log_dir is None else {**launch.env, "TGPU_LOG_DIR": log_dir}
    if not parts:
        return launch if log_dir is None else replace(launch, env=env)
    if not _knows_gpus(launch, parts):
        for name in _OF_GPUS:  # the submitter's, of another machine
            env.pop(name, None)
    gpus = {node.node_id: node.gpus for node in launch.nodes}
    env |= _of_all(launch, parts, gpus)
    if len(parts) == 1:
        env |= _devices(launch, parts[0], gpus)
        return replace(launch, env=env, argv=_with_gpus(launch.argv, env.get("TGPU_GPUS")))
    env |= _of_the_gang(parts, master or _master(parts))
    workers = tuple(_of_a_worker(launch, parts, rank, gpus) for rank in range(len(parts)))
    return replace(launch, env=env, workers=workers)


_Gpus = Mapping[NodeId, Sequence[Gpu]]


def _of_all(launch: Launch, parts: Sequence[Part], gpus: _Gpus) -> dict[str, str]:
    env = {"TGPU_GPU_TYPE": _gpu_type(launch, parts, gpus)}
    if _knows_gpus(launch, parts):
        env |= {"CUDA_VISIBLE_DEVICES": "", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "TGPU_GPUS": ""}
    return env


def _knows_gpus(launch: Launch, parts: Sequence[Part]) -> bool:
    return not launch.request.gpu_millis or any(part.shares for part in parts)


def _gpu_type(launch: Launch, parts: Sequence[Part], gpus: _Gpus) -> str:
    if launch.placement is not None:
        return launch.placement.gpu_type
    types = (gpu.gpu_type for part in parts for gpu in _known(part, gpus).values())
    return next(types, launch.request.gpu_type or "")


def _with_gpus(argv: tuple[str, ...], gpus: str | None) -> tuple[str, ...]:
    """The GPUs in place of their name; the workers of a gang have different ones and no such."""
    return argv if gpus is None else tuple(word.replace(ASSIGNED, gpus) for word in argv)


def _devices(launch: Launch, part: Part, gpus: _Gpus) -> dict[str, str]:
    """The GPUs of one worker, by number; slices of a GPU have no number that CUDA knows."""
    if not _knows_gpus(launch, [part]):
        return {}
    indexes = [share.gpu_index for share in part.shares]
    env = {"TGPU_GPUS": ",".join(map(str, indexes))}
    env["CUDA_VISIBLE_DEVICES"] = env["TGPU_GPUS"]
    if any(gpu.slice_of is not None for gpu in gpus.get(part.node_id, ())):
        known = _known(part, gpus)
        if any(gpu.slice_of is not None for gpu in known.values()):
            names = [known[index].uuid if index in known else str(index) for index in indexes]
            env["CUDA_VISIBLE_DEVICES"] = ",".join(names)
    if any(share.millis < GPU for share in part.shares):
        env |= _of_a_share(launch, part, _known(part, gpus))
    return env


def _of_a_share(launch: Launch, part: Part, gpus: Mapping[int, Gpu]) -> dict[str, str]:
    """What CUDA's multi-process service holds a job to that has a part of a GPU."""
    request = launch.request
    millis = launch.compute_millis or min(share.millis for share in part.shares)
    env = {
        "TGPU_GPU_FRACTION": gpus_text(millis),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(max(1, millis * 100 // GPU)),
    }
    limits = []
    for share in part.shares:
        gpu = gpus.get(share.gpu_index)
        if request.gpu_mem_mib:
            limits.append(request.gpu_mem_mib * share.millis // request.gpu_millis)
        elif gpu is not None:
            limits.append(gpu.mem_mib * share.millis // GPU)
    if limits and len(limits) == len(part.shares):
        # By the numbers that the job sees, which begin at 0 whatever its GPUs are.
        pinned = (f"{number}={mib}M" for number, mib in enumerate(limits))
        env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(pinned)
        env["TGPU_GPU_MEM_LIMIT_MB"] = str(min(limits))
    return env


def _of_the_gang(parts: Sequence[Part], master: str) -> dict[str, str]:
    """What all workers of a gang are told. The launcher adds MASTER_PORT, when it has found one."""
    size = str(len(parts))
    return {
        "WORLD_SIZE": size,
        "TGPU_WORLD_SIZE": size,
        "TGPU_NODE_LIST": ",".join(_nodes_in_order(parts)),
        "MASTER_ADDR": master,
    }


def _master(parts: Sequence[Part]) -> str:
    return parts[0].node_id if len(_nodes_in_order(parts)) > 1 else LOOPBACK


def _of_a_worker(launch: Launch, parts: Sequence[Part], rank: int, gpus: _Gpus) -> dict[str, str]:
    here = [number for number, part in enumerate(parts) if part.node_id == parts[rank].node_id]
    node_rank = str(_nodes_in_order(parts).index(parts[rank].node_id))
    return {
        "RANK": str(rank),
        "TGPU_RANK": str(rank),
        "LOCAL_RANK": str(here.index(rank)),
        "LOCAL_WORLD_SIZE": str(len(here)),
        "NODE_RANK": node_rank,
        "GROUP_RANK": node_rank,
        **_devices(launch, parts[rank], gpus),
    }


def _nodes_in_order(parts: Sequence[Part]) -> list[NodeId]:
    """Each once, in the order of the first ranks on them."""
    return list(dict.fromkeys(part.node_id for part in parts))


def _known(part: Part, gpus: _Gpus) -> dict[int, Gpu]:
    """What is known of its GPUs, by index."""
    indexes = {share.gpu_index for share in part.shares}
    return {gpu.index: gpu for gpu in gpus.get(part.node_id, ()) if gpu.index in indexes}
