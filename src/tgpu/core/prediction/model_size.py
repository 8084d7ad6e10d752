"""How many GPUs a model needs: from a table, or estimated from its name. Pure.

The estimate is for inference; training takes several times as much.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from tgpu.core.model.units import GPU, GPU_STEP, gpus_text

DEFAULT_BITS: Final = 16  # fp16 or bf16, which models are published in
# Beside the weights: activations, the cache of keys and values, CUDA's own. A rule of thumb.
OVERHEAD_PERCENT: Final = 20
LEARNED_PERCENT: Final = 10  # beyond the highest peak seen: the next run may be a little larger
_SMALLEST: Final = GPU // 10  # of a GPU: CUDA alone takes some hundred MiB of every job
_MIB: Final = 1024 * 1024
_BILLION: Final = 1_000_000_000
_SEPARATED: Final = r"(?<![a-z0-9.]){}(?![a-z0-9])"
_EXPERTS: Final = re.compile(_SEPARATED.format(r"(\d{1,3})x(\d{1,4}(?:\.\d{1,3})?)([bm])"))
_PARAMETERS: Final = re.compile(_SEPARATED.format(r"(\d{1,4}(?:\.\d{1,3})?)([bmt])"))
_BITS: Final = (
    (re.compile(_SEPARATED.format(r"(?:fp|float|tf)32|f32")), 32),
    (re.compile(_SEPARATED.format(r"(?:fp|bf|float|bfloat)16|f16|half")), 16),
    (re.compile(_SEPARATED.format(r"w8a\d+|(?:fp|int|float)-?8|8-?bits?|q8(?:_\w+)?")), 8),
    (re.compile(_SEPARATED.format(r"6-?bits?|q6(?:_\w+)?")), 6),
    (re.compile(_SEPARATED.format(r"5-?bits?|q5(?:_\w+)?")), 5),
    (
        re.compile(_SEPARATED.format(r"w4a\d+|(?:fp|nf|int)-?4|4-?bits?|q4(?:_\w+)?|awq|gptq|bnb")),
        4,
    ),
    (re.compile(_SEPARATED.format(r"int-?3|3-?bits?|q3(?:_\w+)?")), 3),
    (re.compile(_SEPARATED.format(r"int-?2|2-?bits?|q2(?:_\w+)?")), 2),
)


class SizeSource(StrEnum):
    """Where a size comes from."""

    TABLE = "table"  # the model's own line
    PATTERN = "pattern"  # a line with a wildcard
    ESTIMATE = "estimate"  # reckoned from the name
    DEFAULT = "default"  # nothing is known of the model
    LEARNED = "learned"  # the peaks of past runs


@dataclass(frozen=True, slots=True)
class Requirement:
    gpu_millis: int
    gpu_mem_mib: int = 0  # over all its GPUs together; 0: not said


@dataclass(frozen=True, slots=True)
class SizeTable:
    """What `llm_config.json` says. Names may have the wildcards * and ?."""

    default: Requirement = Requirement(GPU)
    models: tuple[tuple[str, Requirement], ...] = ()


@dataclass(frozen=True, slots=True)
class Size:
    """What a model needs, and why: `steps` is the arithmetic, in words."""

    requirement: Requirement
    source: SizeSource
    steps: tuple[str, ...]
    matched: str = ""  # the line of the table


NO_TABLE: Final = SizeTable()


def model_of(argv: Sequence[str]) -> str | None:
    """The model that a command names, by --llm or else by --model."""
    for option in ("--llm", "--model"):
        for place, word in enumerate(argv):
            if word.startswith(f"{option}="):
                return word.partition("=")[2] or None
            if word == option and place + 1 < len(argv) and not argv[place + 1].startswith("-"):
                return argv[place + 1] or None
    return None


def key_of(model: str) -> str:
    """One name for a model however it is written: Qwen/Qwen2.5-7B and /models/qwen2.5-7b/."""
    return model.strip().rstrip("/").rpartition("/")[2].lower()


def size_of(model: str, table: SizeTable, gpu_mem_mib: int, step_millis: int = GPU_STEP) -> Size:
    """By the table, else by the name against a GPU of this memory, else the table's default."""
    return (
        _in_table(model, table)
        or _estimated(model, gpu_mem_mib, step_millis)
        or Size(
            table.default,
            SizeSource.DEFAULT,
            (f"{model!r} is not in the table, and its name tells no number of parameters",),
        )
    )


def learned_size(
    peak_mib: int, runs: int, gpu_mem_mib: int, step_millis: int = GPU_STEP
) -> Size | None:
    """By the highest peak of past runs; None where that is not known."""
    if peak_mib <= 0 or gpu_mem_mib <= 0:
        return None
    need = _ceil_div(peak_mib * (100 + LEARNED_PERCENT), 100)
    millis = _millis(need, gpu_mem_mib, step_millis)
    steps = (
        f"highest peak of {runs} past {'run' if runs == 1 else 'runs'}: {peak_mib} MiB",
        f"{peak_mib} MiB + {LEARNED_PERCENT}% = {need} MiB",
        _against(need, gpu_mem_mib, millis),
    )
    return Size(Requirement(millis), SizeSource.LEARNED, steps)


def parameters_of(model: str) -> int | None:
    """The number of parameters that a name tells; of several numbers the largest."""
    name = model.lower()
    found = [int(m[1]) * _count(m[2], m[3]) for m in _EXPERTS.finditer(name)]
    found += [_count(m[1], m[2]) for m in _PARAMETERS.finditer(name)]
    return max((count for count in found if count > 0), default=None)


def bits_of(model: str) -> int | None:
    """Bits of a weight, where the name tells; of several the smallest, the quantised one."""
    name = model.lower()
    return min((bits for pattern, bits in _BITS if pattern.search(name)), default=None)


def _in_table(model: str, table: SizeTable) -> Size | None:
    names = (model.strip().lower(), key_of(model))
    for name, requirement in table.models:
        if name.lower() in names:
            return Size(requirement, SizeSource.TABLE, (f"{name!r} stands in the table",), name)
    fitting = [
        (name, requirement)
        for name, requirement in table.models
        if any(sign in name for sign in "*?")
        and any(fnmatchcase(each, name.lower()) for each in names)
    ]
    if not fitting:
        return None
    # The most particular one: with the most that is not wild.
    name, requirement = min(fitting, key=lambda row: (-_literal(row[0]), row[0]))
    return Size(requirement, SizeSource.PATTERN, (f"{name!r} in the table fits {model!r}",), name)


def _estimated(model: str, gpu_mem_mib: int, step_millis: int) -> Size | None:
    parameters = parameters_of(model)
    if parameters is None or gpu_mem_mib <= 0:
        return None
    told = bits_of(model)
    bits = told or DEFAULT_BITS
    weights = _ceil_div(parameters * bits, 8 * _MIB)
    need = _ceil_div(weights * (100 + OVERHEAD_PERCENT), 100)
    millis = _millis(need, gpu_mem_mib, step_millis)
    why_bits = "by its name" if told else "as the name tells none"
    steps = (
        f"{_billions(parameters)} parameters x {bits} bits ({why_bits}) = {weights} MiB",
        f"{weights} MiB + {OVERHEAD_PERCENT}% for activations and caches = {need} MiB",
        _against(need, gpu_mem_mib, millis),
    )
    return Size(Requirement(millis), SizeSource.ESTIMATE, steps)


def _millis(need_mib: int, gpu_mem_mib: int, step_millis: int) -> int:
    """A share where one GPU is enough; whole GPUs beyond that, as a model is split evenly."""
    if need_mib > gpu_mem_mib:
        return _ceil_div(need_mib, gpu_mem_mib) * GPU
    share = max(_SMALLEST, _ceil_div(need_mib * GPU, gpu_mem_mib))
    return min(GPU, _ceil_div(share, step_millis) * step_millis)


def _against(need_mib: int, gpu_mem_mib: int, millis: int) -> str:
    gpus = f"{gpus_text(millis)} {'GPU' if millis <= GPU else 'GPUs'}"
    return f"{need_mib} MiB on GPUs of {gpu_mem_mib} MiB = {gpus}"


def _count(number: str, unit: str) -> int:
    whole, _, part = number.partition(".")
    thousandths = int(whole) * 1000 + int(part.ljust(3, "0") or 0)
    return thousandths * {"t": _BILLION, "b": _BILLION // 1000, "m": 1000}[unit]


def _billions(parameters: int) -> str:
    if parameters >= _BILLION:
        return f"{parameters / _BILLION:g} billion"
    return f"{parameters / 1_000_000:g} million"


def _literal(pattern: str) -> int:
    return sum(sign not in "*?" for sign in pattern)


def _ceil_div(amount: int, by: int) -> int:
    return -(-amount // by)
