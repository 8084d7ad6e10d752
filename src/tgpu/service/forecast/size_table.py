"""Parses the table of model sizes, `llm_config.json`. Pure."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tgpu.core.model.units import GPU, gpu_millis
from tgpu.core.prediction.model_size import Requirement, SizeTable

_MIB_PER_GB: Final = 1024
_MOST_GB: Final = 1_000_000
_KEYS: Final = ("default_requirement", "models")


def read_size_table(content: bytes) -> tuple[SizeTable, list[str]]:
    """The table, and what is wrong with it; a line that is wrong is left out, the others hold."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        return SizeTable(), [f"is not JSON: {error}"]
    if not isinstance(values, dict):
        return SizeTable(), ['must be an object like {"default_requirement": 1.0, "models": {}}']
    problems = [
        f"{key!r} is not known; there are: {', '.join(_KEYS)}"
        for key in values
        if key not in _KEYS and not key.startswith(("_", "//"))
    ]
    default = Requirement(GPU)
    try:
        default = _requirement(values.get("default_requirement", 1))
    except ValueError as error:
        problems.append(f"default_requirement: {error}")
    models = values.get("models", {})
    if not isinstance(models, dict):
        problems.append("models must be an object with a line for each model")
        models = {}
    return SizeTable(default, tuple(_models(models, problems))), problems


def _models(models: Mapping[str, Any], problems: list[str]) -> Iterator[tuple[str, Requirement]]:
    for name, value in models.items():
        try:
            yield name, _requirement(value)
        except ValueError as error:
            problems.append(f"models, {name!r}: {error}")


def _requirement(value: Any) -> Requirement:
    if not isinstance(value, dict):
        return Requirement(_gpus(value))
    unknown = sorted(value.keys() - {"gpus", "memory_gb"})
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not known; write gpus and memory_gb")
    return Requirement(_gpus(value.get("gpus", 1)), _memory_mib(value.get("memory_gb", 0)))


def _gpus(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"GPUs must be a number like 1, 2 or 0.5, not {value!r}")
    return gpu_millis(value)


def _memory_mib(value: Any) -> int:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST_GB:
        return math.ceil(value * _MIB_PER_GB)
    raise ValueError(f"memory_gb must be a number of GiB like 40, not {value!r}")
