"""What pydantic complains of, in our words. Values are checked in three places (what is sent, what
is typed, what is answered), and people read of all of them.
"""

from collections.abc import Mapping
from typing import Any, Final

from tgpu.wire.bounds import LONGEST_ARGUMENT, NO_NUL

# By the type of pydantic's complaint; braces are filled from its context.
_REMEDIES: Final = {
    "missing": "is required",
    "extra_forbidden": "is not a field of this request; GET /docs shows those there are",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a smaller number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "decimal_type": "must be a number",
    "decimal_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "multiple_of": "must be a multiple of {multiple_of}",
    "string_type": "must be text",
    "string_unicode": "must be Unicode text, and half a surrogate pair is none",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "has a form that cannot be",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must have at least {min_length} entries",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "set_type": "must be a list",
    "dict_type": "must be an object with names and values",
    "model_type": "must be an object with named fields",
    "model_attributes_type": "must be an object with named fields",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "none_required": "must be left out",
    "path_type": "must be a path",
    "json_invalid": "must be JSON",
    "json_type": "must be JSON",
}
# The bounds of texts say more than how many characters those are.
_ARGUMENT: Final = (
    f"must have at most {LONGEST_ARGUMENT} bytes, the most that a program can be given"
)
_OURS: Final = ("value_error", "assertion_error")  # raised by checks of our own
_NUL: Final = "must not contain NUL characters"
_UNKNOWN: Final = "cannot have this value"


def remedy_of(error: Mapping[str, Any]) -> str:
    """What would be right, from one entry of pydantic's `errors()`."""
    kind, context = str(error.get("type")), error.get("ctx") or {}
    if kind in _OURS:
        return str(context.get("error") or _UNKNOWN)
    if kind == "string_too_long" and context.get("max_length") == LONGEST_ARGUMENT:
        return _ARGUMENT
    if kind == "string_pattern_mismatch" and context.get("pattern") == NO_NUL:
        return _NUL
    try:
        return _known(kind, error).format(**{name: _bound(v) for name, v in context.items()})
    except KeyError:  # a newer pydantic, with another context
        return _UNKNOWN


def _known(kind: str, error: Mapping[str, Any]) -> str:
    remedy = _REMEDIES.get(kind)
    if remedy is not None:
        return remedy
    # Of our own, made with PydanticCustomError: they have no address in pydantic's documentation.
    is_own = not str(error.get("url", "")) and str(error.get("msg", ""))[:1].islower()
    return str(error["msg"]).replace("{", "{{").replace("}", "}}") if is_own else _UNKNOWN


def _bound(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value
