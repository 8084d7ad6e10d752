"""The JSON schema of a job file, read off the options of `tgpu submit` and the API's fields."""

from typing import Any, Final, cast

from typer.core import TyperCommand

from tgpu.cli.option_words import Option, options_of
from tgpu.cli.submit.job_file import SAME, field_names
from tgpu.wire.v1 import SubmitRequest

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_SCALAR: Final = {"type": ["string", "number"]}
_SCALARS: Final = {"type": "array", "items": _SCALAR}
_NAMED: Final = {"type": "object", "additionalProperties": _SCALAR}
_OWN: Final[dict[str, dict[str, Any]]] = {
    "command": {
        "description": "Words of the command, or a text for a shell to run.",
        "anyOf": [{"type": "string"}, {"type": "array", "items": _SCALAR}],
    },
    "params": {
        "description": "One job for each value, which replaces {name} in the command.",
        "type": "object",
        "additionalProperties": {"anyOf": [_SCALAR, _SCALARS]},
    },
    "after": {
        "description": (
            "Start after these have completed: ids, or names of jobs above it in the file."
        ),
        "anyOf": [_SCALAR, {"type": "array", "items": {"anyOf": [_SCALAR, _NAMED]}}],
    },
}


def job_file_schema() -> dict[str, Any]:
    """A job, or several under `jobs` or as a list."""
    from tgpu.cli.main import build_command

    options = options_of(cast(TyperCommand, build_command().commands["submit"]))
    request = SubmitRequest.model_json_schema()
    fields = {name: _field(name, options, request["properties"]) for name in field_names(options)}
    job = {"type": "object", "properties": fields, "additionalProperties": False}
    jobs = {"type": "array", "items": {"$ref": "#/$defs/Job"}}
    several = {"type": "object", "properties": {"jobs": jobs}, "required": ["jobs"]}
    return {
        "$schema": _DIALECT,
        "title": "Jobs of tgpu",
        "anyOf": [{"$ref": "#/$defs/Job"}, {**several, "additionalProperties": False}, jobs],
        "$defs": {**request.get("$defs", {}), "Job": job},
    }


def _field(name: str, options: dict[str, Option], fields: dict[str, Any]) -> dict[str, Any]:
    if name in _OWN or name == "param":
        return _OWN[{"param": "params"}.get(name, name)]
    option = options.get(SAME.get(name, name))
    if option is None:
        return cast(dict[str, Any], fields[name])
    shapes: list[dict[str, Any]] = (
        [{"type": "boolean"}] if option.is_switch else [_SCALAR, _SCALARS]
    )
    if option.name in ("env", "label"):
        shapes.append(_NAMED)
    if name == "array":
        shapes.append(fields["array"])
    return {"description": option.help, "anyOf": shapes}
