"""The JSON schema of a settings file, for editors and for checks before a file is installed.

It is read off the models, and knows the other names for our keys as well.
"""

import copy
from typing import Any, Final, cast

from pydantic import TypeAdapter

from tgpu.settings.keys import schema, schema_at
from tgpu.settings.setting_aliases import IDLE, NO_EFFECT, RENAMED, Renamed

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
# Other names whose values are converted: what may stand there is not what ours allow.
_CONVERTED: Final[dict[str, dict[str, object]]] = {
    "logging.structured": {"type": "boolean"},
    "logging.metrics_enabled": {"type": "boolean"},
    "logging.max_log_size_mb": {"type": "number", "minimum": 0, "maximum": 1_000_000},
}


def json_schema() -> dict[str, Any]:
    """The whole of it, as a new object."""
    made = copy.deepcopy(dict(schema()))
    made = {"$schema": _DIALECT, **made, "title": "Settings of tgpu"}
    for key in RENAMED:
        _put(made, key.name, _renamed(key))
    for idle in IDLE:
        node = TypeAdapter(idle.kind).json_schema()
        _put(made, idle.name, {**node, "description": NO_EFFECT[0].upper() + NO_EFFECT[1:] + "."})
    for section in [made, *made["$defs"].values()]:
        if section.get("additionalProperties") is False:  # JSON has no comments but these
            section["patternProperties"] = {"^//": {"description": "A comment."}}
    return made


def _renamed(key: Renamed) -> dict[str, object]:
    node = _CONVERTED.get(key.name)
    if node is None:
        node = dict(schema_at(tuple(key.to.split("."))) or {})
    return {**node, "description": f"Another name for {key.to}."}


def _put(whole: dict[str, Any], name: str, node: dict[str, object]) -> None:
    section, _, leaf = name.partition(".")
    _section(whole, section)["properties"][leaf] = node


def _section(whole: dict[str, Any], name: str) -> dict[str, Any]:
    """The object that describes a section; one that only others have is made."""
    known = whole["properties"].get(name)
    if known is None:
        known = {"type": "object", "additionalProperties": False, "properties": {}}
        whole["properties"][name] = known
    if "$ref" in known:
        known = whole["$defs"][known["$ref"].rpartition("/")[2]]
    return cast(dict[str, Any], known)
