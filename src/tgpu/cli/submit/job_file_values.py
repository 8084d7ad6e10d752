"""The values of a job file: nodes of YAML as texts, lists and commands. Pure."""

import shlex

import yaml

from tgpu.cli.submit.import_lines import shell_character
from tgpu.cli.submit.script_head import Script, command_words

_YAML = "tag:yaml.org,2002:"


class WrongValue(Exception):
    """What is wrong with a value and what to write; the field and its line are said before."""


def text_of(node: yaml.Node) -> str:
    """As it is written in the file. `no` and `null` without quotes are seldom meant as words."""
    if not isinstance(node, yaml.ScalarNode):
        raise WrongValue("must be a single value")
    if node.tag == f"{_YAML}null":
        raise WrongValue("has no value: write one, or leave it out")
    if node.tag == f"{_YAML}bool":
        raise WrongValue(
            f"{node.value} means yes or no in YAML: put it into quotes, '{node.value}'"
        )
    return str(node.value)


def texts_of(node: yaml.Node) -> dict[str, str]:
    if not isinstance(node, yaml.MappingNode):
        raise WrongValue("must be names and values, as in: SEED: 1")
    return {key.value: text_of(value) for key, value in node.value}


def names_and_values(node: yaml.Node) -> dict[str, list[str]]:
    """{lr: [0.1, 0.01]}; also ["lr=0.1,0.01"], as on the command line."""
    if isinstance(node, yaml.SequenceNode):
        pairs = [text_of(item).partition("=") for item in node.value]
        return {name: values.split(",") for name, _, values in pairs}
    if not isinstance(node, yaml.MappingNode):
        raise WrongValue("must be names with lists of values, as in: lr: [0.1, 0.01]")
    return {
        key.value: [text_of(item) for item in value.value]
        if isinstance(value, yaml.SequenceNode)
        else [text_of(value)]
        for key, value in node.value
    }


def command_of(node: yaml.Node) -> list[str]:
    """Words as they are; a text is what a shell runs, or a line of words that needs none."""
    if isinstance(node, yaml.SequenceNode):
        words = [text_of(item) for item in node.value]
        if not words:
            raise WrongValue("has no words; leave it out and write lease: true for a lease")
        return words
    text = text_of(node)
    if not text.strip():
        raise WrongValue("is empty; leave it out and write lease: true for a lease")
    if "\n" not in text.strip() and not shell_character(text):
        try:
            return shlex.split(text)
        except ValueError:
            raise WrongValue(f"{text!r} has a quote that is not closed") from None
    return command_words(Script("command", "bash", text), (), by_path=False)


def plain_value(node: yaml.Node) -> object:
    """As YAML takes it, for fields of the API, which are strict about numbers and texts."""
    if isinstance(node, yaml.MappingNode):
        return {key.value: plain_value(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [plain_value(item) for item in node.value]
    return _scalar(node)


def _scalar(node: yaml.Node) -> object:
    kind, text = node.tag.removeprefix(_YAML), str(node.value)
    if kind == "null":
        raise WrongValue("has no value: write one, or leave it out")
    if kind == "bool":
        return text.lower() in ("true", "yes", "on")
    if kind == "int" and text.lstrip("+-").isdigit():
        return int(text)
    try:
        return float(text) if kind == "float" else text
    except ValueError:  # 1:30.5 is one for YAML
        return text
