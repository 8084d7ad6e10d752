"""Validation errors of pydantic and msgspec, in words for the sender."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tgpu.core.errors import quoted
from tgpu.text.gpu_names import GPU_REMEDY
from tgpu.text.json_words import json_words
from tgpu.text.masking import MASK
from tgpu.wire.complaints import remedy_of

MOST_TOLD: Final = 20  # complaints in an answer; of the others the number is told
_LOOKED_AT: Final = 200  # pydantic's own, of which each member of a union has one

_IN_A_SENTENCE: Final = 3
# What would be right where the type alone says too little.
_EXAMPLES: Final = {
    "command": 'like ["python", "train.py"]',
    "args": 'like ["--epochs", "100"]',
    "array": 'like {"indexes": "1-100"}',
    "after": 'like [{"job_id": "7"}]',
    "after.0": 'like {"job_id": "7"}',
    "params": 'like {"lr": ["0.1", "0.01"]}',
    "environment": 'like {"SEED": "1"}',
    "secrets": 'like {"HF_TOKEN": "…"}',
    "allowed_gpus": 'like [0, 1] or ["b/0"]',
    "excluded_gpus": 'like [0, 1] or ["b/0"]',
    "gpu_types": 'like ["H100", "A100"]',
    "nodes": 'like ["node-1"]',
    "excluded_nodes": 'like ["node-1"]',
    "labels": 'like {"rack": "r1"}',
    "budget": 'like {"gpu_hours": 500, "window": "month", "action": "hold"}',
}
_SHAPES: Final = frozenset({"list_type", "dict_type", "model_type", "model_attributes_type"})
_UNIONS: Final = ("gpu_count", "gpus", "num_gpus", "checkpoint_signal")
# Where a value may be of several kinds, and naming the first of them would mislead.
_INSTEAD: Final = {"checkpoint_signal": "must be a signal: USR1 or 10"}
_GPU_LISTS: Final = ("allowed_gpus", "excluded_gpus")
_PART: Final = 64  # characters of a name that somebody made up
_PLACES: Final = ("body", "query", "path")


class Complaints(list[dict[str, object]]):
    """At most MOST_TOLD of them; `others` is how many more there were."""

    others: int = 0


def complaints(found: Sequence[Mapping[str, Any]]) -> Complaints:
    """pydantic's errors as field, value and remedy; one for each field."""
    by_field: dict[str, dict[str, object]] = {}
    for error in found[:_LOOKED_AT]:
        complaint = _complaint(error)
        by_field.setdefault(str(complaint["field"]), complaint)
    told = Complaints(list(by_field.values())[:MOST_TOLD])
    told.others = len(by_field) - len(told) + max(0, len(found) - _LOOKED_AT)
    return told


def sentence(found: Sequence[Mapping[str, object]]) -> str:
    """The first few complaints as one message, and how many others there are."""
    told = "; ".join(_one(complaint) for complaint in found[:_IN_A_SENTENCE])
    others = len(found) - _IN_A_SENTENCE + (found.others if isinstance(found, Complaints) else 0)
    return f"{told}; and {others} more" if others > 0 else told


def _one(complaint: Mapping[str, object]) -> str:
    got = f" (got {complaint['value']})" if complaint["value"] else ""
    return f"{complaint['field']}: {complaint['remedy']}{got}"


def _complaint(error: Mapping[str, Any]) -> dict[str, object]:
    kind, context = str(error.get("type")), error.get("ctx") or {}
    if kind == "json_invalid":
        place = error["loc"][-1]
        remedy = f"must be JSON: {json_words(str(context.get('error', '')))} at character {place}"
        return {"field": "body", "value": "", "remedy": remedy}
    field = _field(error.get("loc", ()))
    value = error.get("input")
    if field == "body" and isinstance(value, bytes):
        remedy = "must be JSON, sent with the header Content-Type: application/json"
        return {"field": field, "value": quoted(value), "remedy": remedy}
    if field.split(".", maxsplit=1)[0] == "secrets":
        value = MASK  # said without it, also to whoever sent it: answers are kept
    remedy = _INSTEAD.get(field) or remedy_of(error)
    if field.partition(".")[0] in _GPU_LISTS and "." in field and not isinstance(value, int):
        remedy = GPU_REMEDY  # a number is told what is wrong with it
    if kind in _SHAPES and field in _EXAMPLES:
        remedy += f", {_EXAMPLES[field]}"
    return {"field": field, "value": "" if kind == "missing" else quoted(value), "remedy": remedy}


def _field(place: Sequence[Any]) -> str:
    parts = [_part(part) for part in place]
    named = parts[1:] if parts and parts[0] in _PLACES else parts
    if named and named[0] in _UNIONS:
        named = named[:1]  # each member complains for itself, with its type's name at the end
    elif named and named[0] in _GPU_LISTS:
        named = named[:2]
    return ".".join(named) or "body"


def _part(part: object) -> str:
    text = str(part)
    return text if len(text) <= _PART else f"{text[:_PART]}..."


# -- msgspec -------------------------------------------------------------------------------------

_LENGTH: Final = re.compile(r"expected `str` of length (>=|<=) (\d+)", re.IGNORECASE)
_LIMIT: Final = re.compile(r"expected `(?:int|float)` (>=|<=|>|<) (-?[\d.]+)", re.IGNORECASE)
_KIND: Final = re.compile(r"expected `(\w+)", re.IGNORECASE)
_BOUNDS: Final = {">=": "at least", "<=": "at most", ">": "above", "<": "below"}
_KINDS: Final = {
    "int": "must be a whole number",
    "float": "must be a number",
    "str": "must be text",
    "object": "must be a JSON object",
}


def of_msgspec(complaint: str) -> str:
    """ "Expected `int` >= 1" is "must be at least 1"."""
    if length := _LENGTH.match(complaint):
        if length[1] == ">=":
            return "must not be empty"
        return f"must have at most {length[2]} characters"
    if limit := _LIMIT.match(complaint):
        return f"must be {_BOUNDS[limit[1]]} {limit[2].removesuffix('.0')}"
    if kind := _KIND.match(complaint):
        return _KINDS.get(kind[1].lower(), "has the wrong type")
    if "out of range" in complaint:
        return "must be a smaller number"
    return "cannot have this value"


def of_bad_json(complaint: str) -> str:
    """What is wrong with text that is no JSON."""
    if "truncated" in complaint:
        return "it ends too early"
    if "utf-8" in complaint.lower():
        return "it is not UTF-8"
    if "surrogate" in complaint:
        return "half a surrogate pair is not text"
    if "recursion" in complaint:
        return "it is nested too deeply"
    if "digits" in complaint:
        return "a number in it has too many digits"
    return json_words(complaint.removeprefix("JSON is malformed: "))
