"""`tgpu size`: how many GPUs a model needs, with the calculation."""

from typing import TYPE_CHECKING, Annotated

import typer

from tgpu.cli.options import ApiUrl, Json, examples

if TYPE_CHECKING:
    from tgpu.wire.sizes_v1 import SizeAnswer, SizeModel

EPILOG = examples(
    "tgpu size qwen2.5-7b-inst",
    "tgpu size meta-llama/Llama-3.1-70B-int4",
    "tgpu size mixtral-8x7b --json | jq .size.gpu_count",
)


def size(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Model name, as after --llm or --model.")
    ],
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Show how many GPUs a model needs: from the table, its name and past runs.

    The estimate is for inference; training takes several times as much.
    """
    from tgpu.cli.connect import connected, ensure_service
    from tgpu.cli.output import note, say, show_json

    ensure_service(api_url)
    with connected(api_url) as client:
        found = client.size(model)
    if as_json:
        show_json(found)
        return
    for line in lines_of(found):
        say(line)
    if found.learned is not None:
        note("past runs decide with: --auto")
    elif found.size.source == "default":
        note("to set it, add a line for it to the file in files.llm_config_file")


def lines_of(found: "SizeAnswer") -> list[str]:
    from tgpu.cli.render.grid import clean
    from tgpu.cli.render.words import plural

    lines = [f"{clean(found.model)}: {_gpus_text(found.size)} ({_source(found)})"]
    lines += [f"  {clean(step)}" for step in found.size.arithmetic]
    if found.learned is not None:
        lines.append(f"past runs: {_gpus_text(found.learned)} ({plural(found.runs, 'run')})")
        lines += [f"  {clean(step)}" for step in found.learned.arithmetic]
    else:
        lines.append("past runs: none known")
    return lines


def _gpus_text(size: "SizeModel") -> str:
    from tgpu.cli.render.words import gpus_text
    from tgpu.text.sizes import mebibytes_text

    memory = f", {mebibytes_text(size.gpu_memory_mb)} of memory" if size.gpu_memory_mb else ""
    return f"{gpus_text(size.gpu_count)}{memory}"


def _source(found: "SizeAnswer") -> str:
    from tgpu.cli.render.grid import clean

    if found.size.source in ("table", "pattern"):
        return f"by {clean(found.table or 'the table')}"
    return {"estimate": "estimated from the name", "default": "the default"}[found.size.source]
