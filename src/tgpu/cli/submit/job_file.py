"""A job file, `job.yaml`: jobs with the options of `tgpu submit` or the fields of the API. Pure.

What stands in it is read as it is written, not as YAML takes it: 1:30 is no number of seconds here,
and 2030-01-31 no object of Python.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from typer.core import TyperCommand

from tgpu.cli.failures import Failure, bad_input
from tgpu.cli.option_words import Option, WrongWords, options_of, read_words
from tgpu.cli.submit.drafts import JobDraft
from tgpu.cli.submit.job_file_values import (
    WrongValue,
    command_of,
    names_and_values,
    plain_value,
    text_of,
    texts_of,
)
from tgpu.cli.submit.option_fields import FLAGS_BY_FIELD
from tgpu.text.json_words import yaml_words
from tgpu.wire.v1 import SubmitRequest

MOST_JOBS: Final = 1000  # more are an array, a sweep, or several files
# Fields of the API that are options under another name.
SAME: Final = {
    **{"gpu_count": "gpus", "num_gpus": "gpus", "tenant_id": "tenant", "project_id": "tenant"},
    **{"job_id": "id", "working_dir": "cwd", "environment": "env", "labels": "label"},
    # A file has the names of secrets, never their values.
    "secrets": "secret",
    **{"nodes": "node", "excluded_nodes": "not-node", "allowed_gpus": "gpu-ids"},
    **{"excluded_gpus": "not-gpu-ids", "max_retries": "retries", "cpu_cores": "cpus"},
    **{"gpu_type": "type", "gpu_types": "type", "mail_to": "mail-user", "mail_on": "mail-type"},
}
# Said by whoever submits, not by a file.
_NOT_SAID: Final = frozenset({"user", "base_environment"})
_PAIRS: Final = frozenset({"env", "label"})


def read_job_file(text: str, shown: str, command: TyperCommand) -> list[JobDraft]:
    """Its jobs, in order. Raises Failure, which names the line."""
    reader = _Reader(shown, command, options_of(command))
    drafts = [reader.draft(node) for node in _jobs(text, shown)]
    if not drafts:
        raise bad_input(f"{shown}: it has no jobs", "write one like: command: [python, t.py]")
    return drafts


def field_names(options: Mapping[str, Option]) -> list[str]:
    """All that may stand in a job, as people would write it."""
    spelled = {name for name in options if "-" not in name}
    return sorted({"command", "params", "after", *spelled, *_fields(), *SAME})


def _fields() -> set[str]:
    return set(SubmitRequest.model_fields) - _NOT_SAID


def _jobs(text: str, shown: str) -> Iterator[yaml.MappingNode]:
    count = 0
    for node in _documents(text, shown):
        for job in _unfolded(node, shown):
            if not isinstance(job, yaml.MappingNode):
                raise bad_input(
                    f"{_at(shown, job)}: a job is fields and their values, as in: gpus: 2"
                )
            count += 1
            if count > MOST_JOBS:
                raise bad_input(f"{shown} has more than {MOST_JOBS} jobs", "use array or params")
            yield job


def _documents(text: str, shown: str) -> Iterator[yaml.Node]:
    if text.lstrip().startswith(("{", "[")):
        text = text.replace("\t", " ")  # JSON may have them, YAML may not
    loader = yaml.SafeLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None and not _is_empty(node):
                _flatten(node, loader, shown, set())
                yield node
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise bad_input(f"{shown}{line}: is not YAML: {yaml_words(error.problem)}") from error
    except yaml.YAMLError as error:
        raise bad_input(f"{shown}: is not YAML: it has characters that cannot be text") from error
    except RecursionError as error:
        raise bad_input(f"{shown}: is nested too deeply") from error
    finally:
        loader.dispose()


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _flatten(node: yaml.Node, loader: yaml.SafeLoader, shown: str, inside: set[int]) -> None:
    """With what `<<: *base` brings; a name that is there twice is a mistake."""
    if id(node) in inside:
        raise bad_input(f"{_at(shown, node)}: contains itself")
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise bad_input(f"{_at(shown, key)}: a name must be a word")
            if key.value in seen:
                raise bad_input(f"{_at(shown, key)}: {key.value!r} is there twice")
            seen.add(key.value)
        loader.flatten_mapping(node)
        # What is merged comes first and is overridden by the node's own.
        merged = {key.value: (key, value) for key, value in node.value}
        node.value = list(merged.values())
        children = [value for _, value in node.value]
    else:
        children = list(node.value) if isinstance(node, yaml.SequenceNode) else []
    for child in children:
        _flatten(child, loader, shown, inside | {id(node)})


def _unfolded(node: yaml.Node, shown: str) -> Sequence[yaml.Node]:
    """The jobs of a document: itself, its list, or what it has under `jobs`."""
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    if not isinstance(node, yaml.MappingNode):
        return [node]
    listed = [value for key, value in node.value if key.value == "jobs"]
    if not listed:
        return [node]
    other = next((key for key, _ in node.value if key.value != "jobs"), None)
    if other is not None:
        raise bad_input(
            f"{_at(shown, other)}: {other.value!r} is outside of jobs",
            "put it into each job; YAML's `<<: *name` shares common fields",
        )
    if not isinstance(listed[0], yaml.SequenceNode):
        raise bad_input(f"{_at(shown, listed[0])}: jobs: must be a list of jobs, each after a `-`")
    return list(listed[0].value)


def _at(shown: str, node: yaml.Node) -> str:
    return f"{shown}, line {node.start_mark.line + 1}"


@dataclass(slots=True)
class _Found:
    """What has been read of one job."""

    words: list[tuple[str, int, list[str]]] = field(default_factory=list)  # name, line, words
    set_here: dict[str, Any] = field(default_factory=dict)  # by parameter, without words
    fields: dict[str, object] = field(default_factory=dict)
    places: dict[str, tuple[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Reader:
    shown: str
    command: TyperCommand
    options: Mapping[str, Option]

    def draft(self, node: yaml.MappingNode) -> JobDraft:
        found = _Found()
        for key, value in node.value:
            try:
                self._read(found, key.value, value, key.start_mark.line + 1)
            except WrongValue as error:
                line = key.start_mark.line + 1
                raise bad_input(f"{self.shown}, line {line}: {key.value}: {error}") from error
        options = {**self._parsed(found), **found.set_here}
        line = node.start_mark.line + 1
        return JobDraft(self.shown, line, options, found.fields, found.places)

    def _read(self, found: _Found, name: str, value: yaml.Node, line: int) -> None:
        option = self.options.get(SAME.get(name, name))
        flag = option.flag if option is not None else FLAGS_BY_FIELD.get(name, name)
        if flag in found.places and found.places[flag][0] != name:
            other, at = found.places[flag]
            raise WrongValue(f"says the same as {other} on line {at}: leave one of them out")
        found.places[flag] = (name, line)
        if name == "command":
            found.set_here["command"] = command_of(value)
        elif name in ("param", "params"):
            found.places["--param"] = (name, line)
            found.fields["params"] = names_and_values(value)
        elif name == "after" and isinstance(value, yaml.SequenceNode):
            self._after(found, value, line)
        elif name == "preemptible":
            found.set_here["no_preempt"] = plain_value(value) is False
        elif option is not None and not isinstance(value, yaml.MappingNode):
            found.words.append((name, line, _words(option, value)))
        elif option is not None and option.flag.removeprefix("--") in _PAIRS:
            pairs = [f"{key}={text}" for key, text in texts_of(value).items()]
            found.words.append((name, line, [f"{option.flag}={pair}" for pair in pairs]))
        elif name in _fields():
            found.fields[name] = plain_value(value)
        else:
            raise self._unknown(name, line)

    def _after(self, found: _Found, value: yaml.SequenceNode, line: int) -> None:
        for item in value.value:
            kind = "ok"
            if isinstance(item, yaml.MappingNode):
                parts = texts_of(item)
                kind = parts.get("kind", "ok")
                if not {"job_id"} <= set(parts) <= {"job_id", "kind"} or kind not in ("ok", "any"):
                    raise WrongValue("write ids, or job_id: ID with kind: ok or kind: any")
                job_id = parts["job_id"]
            else:
                job_id = text_of(item)
            flag = "--after-any" if kind == "any" else "--after"
            found.words.append(("after", line, [f"{flag}={job_id}"]))

    def _unknown(self, name: str, line: int) -> Failure:
        near = difflib.get_close_matches(name.lower(), field_names(self.options), 1)
        hint = f": did you mean {near[0]}?" if near else ""
        return bad_input(
            f"{self.shown}, line {line}: {name!r} is not a field of a job{hint}",
            "`tgpu submit --help` and `tgpu job-schema` show those there are",
        )

    def _parsed(self, found: _Found) -> dict[str, Any]:
        try:
            return read_words(self.command, [w for _, _, words in found.words for w in words])[0]
        except WrongWords:
            for name, line, words in found.words:  # one by one: which was it?
                try:
                    read_words(self.command, words)
                except WrongWords as error:
                    rest = str(error).partition(": ")[2] or str(error)
                    raise bad_input(f"{self.shown}, line {line}: {name}: {rest}") from error
            raise


def _words(option: Option, value: yaml.Node) -> list[str]:
    if option.is_switch:
        wanted = plain_value(value)
        if not isinstance(wanted, bool):
            raise WrongValue(f"{text_of(value)!r} must be true or false")
        return [option.flag] if wanted else []
    if isinstance(value, yaml.SequenceNode):
        texts = [text_of(item) for item in value.value]
        if not option.is_list:
            texts = [",".join(texts)]
        return [f"{option.flag}={text}" for text in texts]
    return [f"{option.flag}={text_of(value)}"]
