"""Commands that keep GPUs from new jobs: pause-gpu, resume-gpu, drain."""

import re
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
_INDEXES: Final = re.compile(r"[0-9]+([-,][0-9]+)*")  # 3, 0-3 or 4,5; no UUID begins so

Gpus = Annotated[
    list[str],
    typer.Argument(
        metavar="GPU",
        help="Index or indexes (0-3), as `tgpu gpus` has them, UUID or its beginning, or a node.",
    ),
]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Reason, shown by `tgpu why`.")]


def pause_gpu(
    gpus: Gpus, reason: Reason = None, as_json: Json = False, api_url: ApiUrl = None
) -> None:
    """Start no new jobs on GPUs. Running jobs go on."""
    from tgpu.cli.connect import connected

    with connected(api_url) as client:
        chosen = _chosen(client.gpus(), gpus)
        _report_paused([client.pause_gpu(index, reason) for index in chosen], as_json)


def resume_gpu(gpus: Gpus, as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Let jobs start on paused GPUs again."""
    from tgpu.cli.connect import connected

    with connected(api_url) as client:
        chosen = _chosen(client.gpus(), gpus)
        _report_resumed([client.resume_gpu(index) for index in chosen], as_json)


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
    """Start no new jobs on a whole node. Running jobs go on.

    GPUs that were paused individually stay paused when this is undone.
    """
    from tgpu.cli.connect import connected

    with connected(api_url) as client:
        found = client.gpus()
        if node is not None:
            _check_node(client, found, node)
        if undo:
            drained = [gpu.index for gpu in found.gpus if _is_drained(gpu)]
            _report_resumed([client.resume_gpu(index) for index in drained], as_json, many=True)
            return
        text = f"{_DRAINED}: {reason}" if reason else _DRAINED
        ready = [gpu.index for gpu in found.gpus if not gpu.paused or _is_drained(gpu)]
        _report_drained([client.pause_gpu(index, text) for index in ready], found, as_json)


def _is_drained(gpu: "GpuModel") -> bool:
    paused = gpu.paused or ""
    return paused == _DRAINED or paused.startswith(f"{_DRAINED}: ")


def _chosen(found: "GpuList", words: "Sequence[str]") -> list[int]:
    """The indexes that words name, each once."""
    indexes = [index for word in words for index in _named(found, word)]
    return list(dict.fromkeys(indexes))


def _named(found: "GpuList", word: str) -> list[int]:
    from tgpu.cli.amounts import parse_gpu_ids
    from tgpu.cli.failures import bad_input

    if word == found.node:
        return [gpu.index for gpu in found.gpus]
    if _INDEXES.fullmatch(word):
        return read_option("GPU", parse_gpu_ids, word)  # the service says which there are
    by_uuid = [gpu.index for gpu in found.gpus if gpu.uuid.lower().startswith(word.lower())]
    if len(by_uuid) == 1:
        return by_uuid
    if by_uuid:
        which = ", ".join(map(str, by_uuid))
        raise bad_input(f"{word!r} is the beginning of several UUIDs, of GPUs {which}", "name one")
    raise bad_input(
        f"no GPU and no node is called {word!r}",
        f"name an index or UUID as `tgpu gpus` has it, or the node {found.node}",
    )


def _check_node(client: "Client", found: "GpuList", node: str) -> None:
    from tgpu.cli.failures import bad_input

    if node == found.node:
        return
    if node in {each.name for each in client.nodes().nodes}:
        raise bad_input(
            f"node {node} only reports, no job is placed there", f"the node with jobs: {found.node}"
        )
    raise bad_input(f"no node is called {node!r}", "see: tgpu nodes")


def _report_paused(changed: "Sequence[GpuModel]", as_json: bool) -> None:
    from tgpu.cli.output import note, say

    if as_json:
        _show_json(changed)
        return
    for gpu in changed:
        say(f"GPU {gpu.index} is paused: {gpu.paused}")
    _note_running(changed)
    note(f"use it again with: tgpu resume-gpu {' '.join(str(gpu.index) for gpu in changed)}")


def _report_resumed(changed: "Sequence[GpuModel]", as_json: bool, *, many: bool = False) -> None:
    from tgpu.cli.output import note, say

    if as_json:
        _show_json(changed, many=many)
        return
    if not changed:
        note("no GPU is drained")
    for gpu in changed:
        say(f"GPU {gpu.index} takes jobs again (now {gpu.status})")


def _report_drained(changed: "Sequence[GpuModel]", found: "GpuList", as_json: bool) -> None:
    from tgpu.cli.output import note, say

    if as_json:
        _show_json(changed, many=True)
        return
    paused = len(found.gpus) - len(changed)
    before = f" ({paused} paused before)" if paused else ""
    from tgpu.wire.plurals import plural

    gpus = plural(len(found.gpus), "GPU")
    say(f"node {found.node} takes no new jobs: {len(changed)} of {gpus}{before}")
    _note_running(changed)
    note("let jobs start there again with: tgpu drain --undo")


def _note_running(changed: "Sequence[GpuModel]") -> None:
    from tgpu.cli.output import note

    jobs = dict.fromkeys(job for gpu in changed for job in gpu.jobs)
    if jobs:
        note(f"still running there: job {', '.join(jobs)}")


def _show_json(changed: "Sequence[GpuModel]", *, many: bool = False) -> None:
    """One GPU is an object, several are a list."""
    from tgpu.cli.output import show_json

    show_json(changed[0] if len(changed) == 1 and not many else list(changed))
