"""Syntax errors of JSON, YAML and TOML in our words; the caller adds the place."""

import re
from typing import Final

_JSON: Final = (
    (re.compile(r"expecting value", re.I), "a value is missing"),
    (re.compile(r"expecting ',' delimiter", re.I), "a comma or a closing bracket is missing"),
    (re.compile(r"expecting ':' delimiter", re.I), "a colon is missing"),
    (
        re.compile(r"property name|object keys must be strings", re.I),
        "a name in double quotes is missing",
    ),
    (re.compile(r"illegal trailing comma|trailing comma", re.I), "there is an extra comma"),
    (re.compile(r"extra data|trailing characters", re.I), "something follows its end"),
    (re.compile(r"unterminated string", re.I), "a text is not closed"),
    (re.compile(r"control character", re.I), "a text has a control character in it"),
    (re.compile(r"escape", re.I), "there is an invalid \\\\ in a text"),
    (re.compile(r"EOF|truncated|ends? too early", re.I), "it ends too early"),
)
_YAML: Final = (
    (
        re.compile(r"found character '\\\\t'|'\\t' that cannot start", re.I),
        "a tab indents it: use spaces",
    ),
    (
        re.compile(r"stream end|block end|expected ',' or", re.I),
        "a bracket or a quote is not closed, or a line is not indented as the others",
    ),
    (
        re.compile(r"mapping values are not allowed", re.I),
        "there is an extra colon: put the text in quotes",
    ),
    (re.compile(r"could not find expected ':'", re.I), "a colon is missing after a name"),
    (re.compile(r"unexpected end of stream", re.I), "a quote is not closed"),
    (
        re.compile(r"undefined alias", re.I),
        "a * names an unknown anchor: put the text in quotes",
    ),
    (
        re.compile(r"could not determine a constructor", re.I),
        "a ! names an unknown type",
    ),
    (
        re.compile(r"unacceptable character|special characters", re.I),
        "it has a control character in it",
    ),
)
_MISSING: Final = re.compile(r"missing required field `(.+?)`")
_UNKNOWN: Final = re.compile(r"contains unknown field `(.+?)`")
_OTHER_TYPE: Final = re.compile(r"Expected `(\w+).*?`, got `(\w+).*?`")
_PATH: Final = re.compile(r"at `\$\.?(.+?)`")
_TYPES: Final = {
    "object": "an object",
    "array": "a list",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
}
_BYTE: Final = re.compile(r"byte \d+")
_PLACE: Final = re.compile(r"\(at line (\d+), column (\d+)\)")


def json_words(complaint: str) -> str:
    byte = _BYTE.search(complaint)
    place = f" ({byte[0]})" if byte else ""
    return _words(_JSON, complaint, "something in it is not JSON") + place


def decoding_words(complaint: str) -> str:
    """Of JSON that is right, but has other fields or values than it should."""
    path = _PATH.search(complaint)
    where = f" at {path[1]}" if path else ""
    if found := _MISSING.search(complaint):
        return f"the field {found[1]!r} is missing{where}"
    if found := _UNKNOWN.search(complaint):
        return f"the field {found[1]!r} is not known{where}"
    if found := _OTHER_TYPE.search(complaint):
        right, wrong = (_TYPES.get(name, name) for name in found.groups())
        return f"{right} is expected, not {wrong}{where}"
    return f"a value is not what it must be{where}"


def yaml_words(complaint: str | None) -> str:
    return _words(_YAML, complaint or "", "something is out of place")


def toml_place(complaint: str) -> str:
    """ ", line 3", as far as the parser says it."""
    found = _PLACE.search(complaint)
    return f", line {found[1]}" if found else ""


def _words(table: tuple[tuple[re.Pattern[str], str], ...], complaint: str, otherwise: str) -> str:
    return next((words for pattern, words in table if pattern.search(complaint)), otherwise)
