"""Settings files as plain mappings: YAML, JSON or TOML, told apart by the end of the name."""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tgpu.settings.errors import SettingsError
from tgpu.text.json_words import json_words, toml_place, yaml_words
from tgpu.text.system_words import system_words

COMMENT_KEY: Final = "//"  # JSON has no comments: a key that begins like this is one

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FileContent:
    """What a file says, and on which line each key stands, as far as that is known."""

    values: dict[str, Any]
    lines: Mapping[Place, int]


def read_file(path: Path) -> FileContent:
    """What the file says; SettingsError names the file and, for a syntax error, the line."""
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        raise SettingsError(
            [f"{path}: the name of a settings file ends in .yaml, .yml, .json or .toml"]
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SettingsError([f"{path}: cannot be read: {system_words(error)}"]) from error
    except UnicodeDecodeError as error:
        raise SettingsError([f"{path}: is not UTF-8 text (byte {error.start})"]) from error
    try:
        content = parse(text)
        lines = dict(_lines(text)) if path.suffix.lower() != ".toml" else {}
    except _SyntaxMistake as error:
        raise SettingsError([f"{path}{error}"]) from error
    except RecursionError as error:
        raise SettingsError([f"{path}: is nested too deeply"]) from error
    if content is None:  # an empty file, or one with comments only
        return FileContent({}, {})
    if not isinstance(content, Mapping):
        raise SettingsError([f"{path}: must hold sections such as 'api:', not a single value"])
    return FileContent(dict(content), lines)


class _SyntaxMistake(Exception):
    """Begins with the place: ", line 3: …"."""


class _UniqueKeyLoader(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys without a word; here the second one is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.value in seen and key_node.tag != "tag:yaml.org,2002:merge":
                raise _SyntaxMistake(
                    f", line {key_node.start_mark.line + 1}: {key_node.value!r} is there twice"
                )
            if isinstance(key_node.value, str):
                seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def _parse_yaml(text: str) -> object:
    try:
        content: object = yaml.load(text, Loader=_UniqueKeyLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise _SyntaxMistake(f"{line}: is not YAML: {yaml_words(error.problem)}") from error
    except yaml.YAMLError as error:
        raise _SyntaxMistake(f": is not YAML: {yaml_words(str(error))}") from error
    return content


def _lines(text: str) -> Iterator[tuple[Place, int]]:
    """The line of every key. JSON is read as YAML here; what that cannot read has no lines."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return
    seen: set[int] = set()  # an anchor may be used often, or contain itself
    waiting: list[tuple[Place, yaml.Node | None]] = [((), root)]
    while waiting:
        place, node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*place, str(key.value))
                yield inner, key.start_mark.line + 1
                waiting.append((inner, value))
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                yield (*place, index), item.start_mark.line + 1
                waiting.append(((*place, index), item))


def _parse_json(text: str) -> object:
    if not text.strip():
        return None
    if not text.lstrip().startswith(("{", "[")):
        return _parse_yaml(text)  # `tgpu config-sample > config.json`
    try:
        return json.loads(text, object_pairs_hook=_json_object)
    except json.JSONDecodeError as error:
        raise _SyntaxMistake(
            f", line {error.lineno}: is not JSON: {json_words(error.msg)}"
        ) from error


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key.startswith(COMMENT_KEY):
            continue
        if key in content:
            raise _SyntaxMistake(f": {key!r} is there twice")
        content[key] = value
    return content


def _parse_toml(text: str) -> object:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = toml_place(str(error))
        raise _SyntaxMistake(
            f"{place}: is not TOML: a value or a name is not written correctly"
        ) from error


_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    ".yaml": _parse_yaml,
    ".yml": _parse_yaml,
    ".json": _parse_json,
    ".toml": _parse_toml,
}
