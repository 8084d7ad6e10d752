"""A whole array or sweep: as a page of facts, as one line, as a receipt."""

from tgpu.cli.render.folded import sweep_text
from tgpu.cli.render.grid import Line, clean, facts
from tgpu.cli.render.words import between, clock_text, gpu_hours_text, gpus_text, number_text
from tgpu.text.durations import duration_text
from tgpu.wire.arrays_v1 import ArraySummary

_SHOWN = 10  # ids of failed elements


def counts_text(array: ArraySummary) -> str:
    """5 running, 195 pending"""
    return ", ".join(f"{count:,} {state}" for state, count in array.states.items())


def array_line(array: ArraySummary) -> str:
    """array 7: 190 completed, 10 failed (exit 3: 10) after 3m20s"""
    ran = between(array.started_at, array.ended_at)
    after = f" after {ran}" if ran else ""
    return f"array {clean(array.array_id)}: {counts_text(array)}{_codes(array)}{after}"


def array_facts(array: ArraySummary, now_ms: int) -> list[Line]:
    limit = f", {array.max_running} at once" if array.max_running else ""
    pairs = [
        ("array", f"{array.array_id}, {array.total:,} jobs: indexes {array.indexes}{limit}"),
        ("name", array.name),
        (
            "state",
            array.state if len(array.states) == 1 else f"{array.state}: {counts_text(array)}",
        ),
        ("exit codes", _codes(array, plain=True)),
        ("failed", _failed(array)),
        ("next", f"{array.next_waiting}; tgpu why {array.array_id}" if array.next_waiting else ""),
        ("command", sweep_text(array.command, _first_point(array))),
        ("parameters", "\n".join(f"{n}={','.join(v)}" for n, v in array.params.items())),
        ("GPUs", f"{gpus_text(array.gpu_count)} each"),
        ("tenant", array.tenant_id),
        ("user", array.user),
        ("rerun of", array.rerun_of or ""),
        ("submitted", clock_text(array.submitted_at, now_ms)),
        ("started", clock_text(array.started_at, now_ms) if array.started_at else ""),
        ("ended", clock_text(array.ended_at, now_ms) if array.ended_at else ""),
        ("GPU-hours", gpu_hours_text(array.gpu_hours) if array.gpu_hours else ""),
    ]
    return facts([(name, clean(value)) for name, value in pairs if value])


def _first_point(array: ArraySummary) -> dict[str, str]:
    """The values of the element whose command stands for all of them."""
    return {name: values[0] for name, values in array.params.items() if values}


def array_receipt(array: ArraySummary, now_ms: int) -> list[Line]:
    lost = f", {gpu_hours_text(array.lost_gpu_hours)} of them lost" if array.lost_gpu_hours else ""
    pairs = [
        ("array", f"{array.array_id} {array.name}".rstrip()),
        ("jobs", f"{array.total:,}: {counts_text(array)}"),
        ("tenant", array.tenant_id),
        ("user", array.user),
        ("submitted", clock_text(array.submitted_at, now_ms)),
        ("ended", clock_text(array.ended_at, now_ms) if array.ended_at else ""),
        ("ran", f"{duration_text(array.run_seconds)} of all jobs together"),
        ("GPUs", f"{gpus_text(array.gpu_count)} each"),
        ("GPU-hours", gpu_hours_text(array.gpu_hours) + lost),
        ("cost", "" if array.cost is None else number_text(array.cost)),
    ]
    return facts([(name, clean(value)) for name, value in pairs if value])


def _codes(array: ArraySummary, *, plain: bool = False) -> str:
    """Of what did not end well; plainly, all of them."""
    codes = {name: n for name, n in array.exit_codes.items() if plain or name not in _TOLD}
    parts = [f"{_code(name)}: {count:,}" for name, count in codes.items()]
    if plain or not parts:
        return ", ".join(parts)
    return f" ({', '.join(parts)})"


_TOLD = ("0", "cancelled", "failed")  # the state says it


def _code(name: str) -> str:
    return f"exit {name}" if name.isdigit() else name


def _failed(array: ArraySummary) -> str:
    if not array.failed:
        return ""
    more = ", …" if array.states.get("failed", 0) > _SHOWN else ""
    ids = ", ".join(array.failed[:_SHOWN])
    return f"indexes {array.failed_indexes} ({ids}{more}); tgpu rerun {array.array_id}"
