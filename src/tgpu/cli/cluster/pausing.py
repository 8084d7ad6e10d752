"""Commands that keep GPUs from new jobs: pause-gpu, resume-gpu, drain."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from tgpu.cli.options import ApiUrl, Json, examples, read_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tgpu.client.http import Client
    from tgpu.wire.v1 import GpuList, GpuModel

PAUSE_EPILOG = examples(
    'tgpu pause-gpu 3 --reason "fan is loud"',
    "tgpu pause-gpu GPU-5d6e1f2a",
    "tgpu pause-gpu 0-1",
    "tgpu resume-gpu 3",
)
RESUME_EPILOG = examples("tgpu resume-gpu 3", "tgpu resume-gpu $(hostname)")
DRAIN_EPILOG = examples('tgpu drain --reason "new driver tonight"', "tgpu drain --undo")

# What GPUs of a drained node carry, so that undoing it leaves those paused one by one as they are.
_DRAINED: Final = "drained"

Gpus = Annotated[
    list[str],
    typer.Argument(
        metavar="GPU",
        help="Indexes as in `tgpu gpus` (0-3; with several nodes b/0-3), a UUID or its beginning, "
        "or a node.",
    ),
]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Reason, shown by `tgpu why`.")]


def pause_gpu(
    gpus: Gpus, reason: Reason = None, as_json: Json = False, api_url: ApiUrl = None
) -> None:
    """Start no new jobs on GPUs. Running jobs continue."""
    from tgpu.cli.connect import connected

    with connected(api_url) as client:
        chosen = _chosen(client.gpus(), gpus)
        _report_paused([client.pause_gpu(gpu, reason) for gpu in chosen], chosen, as_json)


def resume_gpu(gpus: Gpus, as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Let jobs start on paused GPUs again."""
    from tgpu.cli.connect import connected

    with connected(api_url) as client:
        chosen = _chosen(client.gpus(), gpus)
        _report_resumed([client.resume_gpu(gpu) for gpu in chosen], as_json, chosen)


def drain(
    node: Annotated[
        str | None, typer.Argument(metavar="NODE", help="Default: the machine that runs jobs.")
    ] = None,
    *,
    reason: Reason = None,
    undo: Annotated[bool, typer.Option("--undo", help="Let jobs start there again.")] = False,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Start no new jobs on a whole node. Running jobs continue.

    GPUs that were paused individually stay paused when this is undone.
    """
    from tgpu.cli.connect import connected

    with connected(api_url) as client:
        found = client.gpus()
        there = _gpus_of(client, found, node)
        if undo:
            drained = [_word(found, gpu) for gpu in there if _is_drained(gpu)]
            changed = [client.resume_gpu(gpu) for gpu in drained]
            _report_resumed(changed, as_json, drained, many=True)
            return
        text = f"{_DRAINED}: {reason}" if reason else _DRAINED
        ready = [_word(found, gpu) for gpu in there if not gpu.paused or _is_drained(gpu)]
        changed = [client.pause_gpu(gpu, text) for gpu in ready]
        named = f"{node} " if node is not None and len(_nodes(found)) > 1 else ""
        _report_drained(changed, node or found.node, len(there), as_json, named)


def _is_drained(gpu: "GpuModel") -> bool:
    paused = gpu.paused or ""
    return paused == _DRAINED or paused.startswith(f"{_DRAINED}: ")


def _chosen(found: "GpuList", words: "Sequence[str]") -> list[int | str]:
    """The GPUs that words name, each once."""
    named = [gpu for word in words for gpu in _named(found, word)]
    return list(dict.fromkeys(named))


def _named(found: "GpuList", word: str) -> list[int | str]:
    from tgpu.cli.amounts import parse_gpu_ids
    from tgpu.cli.failures import bad_input
    from tgpu.text.gpu_names import is_gpus

    nodes = _nodes(found)
    if word in nodes:
        return [_word(found, gpu) for gpu in found.gpus if _node(found, gpu) == word]
    if is_gpus(word):
        return read_option("GPU", parse_gpu_ids, word)  # the service says which there are
    by_uuid = [gpu for gpu in found.gpus if gpu.uuid.lower().startswith(word.lower())]
    if len(by_uuid) == 1:
        return [_word(found, by_uuid[0])]
    if by_uuid:
        which = ", ".join(str(_word(found, gpu)) for gpu in by_uuid)
        raise bad_input(f"{word!r} matches several UUIDs, of GPUs {which}", "name one")
    node = f"the node {nodes[0]}" if len(nodes) == 1 else f"one of the nodes {', '.join(nodes)}"
    raise bad_input(
        f"there is no GPU or node named {word!r}",
        f"give an index or UUID from `tgpu gpus`, or {node}",
    )


def _nodes(found: "GpuList") -> list[str]:
    """Those that jobs run on."""
    return list(dict.fromkeys([found.node, *(_node(found, gpu) for gpu in found.gpus)]))


def _node(found: "GpuList", gpu: "GpuModel") -> str:
    return gpu.node or found.node  # older services have one


def _word(found: "GpuList", gpu: "GpuModel") -> int | str:
    """As the service takes it, and people read it: bare where there is one node."""
    return gpu.index if len(_nodes(found)) == 1 else gpu.gpu_name


def _gpus_of(client: "Client", found: "GpuList", node: str | None) -> "list[GpuModel]":
    from tgpu.cli.failures import bad_input

    nodes = _nodes(found)
    if node is None and len(nodes) > 1:
        raise bad_input("jobs run on several nodes", f"name the node to drain: {', '.join(nodes)}")
    if node is None or node in nodes:
        return [gpu for gpu in found.gpus if node in (None, _node(found, gpu))]
    if node in {each.name for each in client.nodes().nodes}:
        where = f"the node with jobs: {nodes[0]}" if len(nodes) == 1 else f"those: {nodes}"
        raise bad_input(f"node {node} only reports, no job is placed there", where)
    raise bad_input(f"there is no node named {node!r}", "see: tgpu nodes")


def _report_paused(
    changed: "Sequence[GpuModel]", names: "Sequence[int | str]", as_json: bool
) -> None:
    from tgpu.cli.output import note, say

    if as_json:
        _show_json(changed)
        return
    for gpu, name in zip(changed, names, strict=True):
        say(f"GPU {name} is paused: {gpu.paused}")
    _note_running(changed)
    note(f"use it again with: tgpu resume-gpu {' '.join(map(str, names))}")


def _report_resumed(
    changed: "Sequence[GpuModel]",
    as_json: bool,
    names: "Sequence[int | str]",
    *,
    many: bool = False,
) -> None:
    from tgpu.cli.output import note, say

    if as_json:
        _show_json(changed, many=many)
        return
    if not changed:
        note("no GPU is drained")
    for gpu, name in zip(changed, names, strict=True):
        say(f"GPU {name} takes jobs again (now {gpu.status})")


def _report_drained(
    changed: "Sequence[GpuModel]", node: str, there: int, as_json: bool, named: str
) -> None:
    from tgpu.cli.output import note, say

    if as_json:
        _show_json(changed, many=True)
        return
    paused = there - len(changed)
    before = f" ({paused} paused before)" if paused else ""
    from tgpu.text.plurals import plural

    gpus = plural(there, "GPU")
    say(f"node {node} takes no new jobs: {len(changed)} of {gpus}{before}")
    _note_running(changed)
    note(f"let jobs start there again with: tgpu drain {named}--undo")


def _note_running(changed: "Sequence[GpuModel]") -> None:
    from tgpu.cli.output import note

    jobs = dict.fromkeys(job for gpu in changed for job in gpu.jobs)
    if jobs:
        note(f"still running there: job {', '.join(jobs)}")


def _show_json(changed: "Sequence[GpuModel]", *, many: bool = False) -> None:
    """One GPU is an object, several are a list."""
    from tgpu.cli.output import show_json

    show_json(changed[0] if len(changed) == 1 and not many else list(changed))
