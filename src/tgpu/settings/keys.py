"""The list of all keys, read off the models: for the environment, the sample and the reference."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tgpu.settings.model import Settings

PREFIX: Final = "GPU_SCHEDULER_"
# Short or foreign names that people know; the long name wins where both are set.
ALIASES: Final[Mapping[str, str]] = {
    "GPU_SCHEDULER_GPUS": "devices.gpus",
    "SCHEDULING_POLICY": "scheduler.policy",
    "QUOTA_PROVIDER": "quota.provider",
    "K8S_QUOTA_NAMESPACE": "quota.k8s_namespace",
    "K8S_CREATE_RESOURCE_QUOTAS": "quota.k8s_create_resource_quotas",
    "SLURM_ACCOUNT_PREFIX": "quota.slurm_account_prefix",
    "EXECUTOR_SLURM_REST_API_URL": "quota.slurm_rest_api_url",
    "EXECUTOR_SLURM_AUTH_TOKEN": "quota.slurm_auth_token",
}

_NUMBERS: Final = {"integer": "a whole number", "number": "a number"}
_WORDS: Final = {
    "boolean": "true or false",
    "string": "a text",
    "array": "a list",
    "object": "a section with keys of its own",
}

Schema = Mapping[str, Any]  # a JSON schema, as pydantic makes it


@dataclass(frozen=True, slots=True)
class Key:
    """One thing that can be set."""

    name: str  # dotted: "api.http_port"
    variables: tuple[str, ...]  # environment variables, strongest first
    default: object
    allowed: str  # "a whole number from 0 to 65535"
    description: str
    is_secret: bool = False  # its value is never shown

    @property
    def section(self) -> str:
        """The part before the dot, or nothing for a key at the top."""
        return self.name.rpartition(".")[0]

    @property
    def leaf(self) -> str:
        return self.name.rpartition(".")[2]


@cache
def all_keys() -> tuple[Key, ...]:
    """Every key, in the order of the models."""
    return tuple(_keys_of(Settings, ""))


def variable_of(dotted: str) -> str:
    """The environment variable of a key."""
    return PREFIX + dotted.replace(".", "_").upper()


@cache
def schema() -> Schema:
    return Settings.model_json_schema()


def allowed_at(path: tuple[str | int, ...]) -> str:
    """What may stand at this place, in words; nothing where that is not known."""
    node = schema_at(path)
    return "" if node is None else in_words(node)


def names_at(path: tuple[str | int, ...]) -> tuple[str, ...]:
    """The keys that a section has."""
    node = schema_at(path)
    return () if node is None else tuple(node.get("properties", {}))


def schema_at(path: tuple[str | int, ...]) -> Schema | None:
    node: Schema | None = _resolved(schema())
    for step in path:
        if node is None:
            return None
        child = node.get("items") if isinstance(step, int) else _property(node, step)
        node = None if child is None else _resolved(child)
    return node


def _keys_of(model: type[BaseModel], prefix: str) -> Iterator[Key]:
    for name, field in model.model_fields.items():
        dotted = f"{prefix}{name}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys_of(field.annotation, f"{dotted}.")
        else:
            yield _key(dotted, field)


def _key(dotted: str, field: FieldInfo) -> Key:
    path = tuple(dotted.split("."))
    aliases = tuple(alias for alias, name in ALIASES.items() if name == dotted)
    return Key(
        name=dotted,
        variables=(variable_of(dotted), *aliases),
        default=field.get_default(call_default_factory=True),
        allowed=allowed_at(path),
        description=field.description or "",
        is_secret=bool((schema_at(path) or {}).get("writeOnly")),
    )


def _property(node: Schema, name: str) -> Schema | None:
    known = node.get("properties", {}).get(name)
    if known is not None:
        return dict(known)
    open_ended = node.get("additionalProperties")
    return open_ended if isinstance(open_ended, dict) else None


def _resolved(node: Schema) -> Schema:
    """Without the detours: references followed, "or nothing" taken off."""
    if "$ref" in node:
        return _resolved(schema()["$defs"][node["$ref"].rpartition("/")[2]])
    options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
    numbers = [option for option in options if option.get("type") in ("number", "integer")]
    if options:
        return _resolved((numbers or options)[0])  # a Decimal is "a number or a text of digits"
    return node


def in_words(node: Schema) -> str:
    """What a JSON schema allows, as a person would say it."""
    if "enum" in node:
        return "one of " + ", ".join(str(choice) for choice in node["enum"])
    kind = node.get("type", "")
    if kind in ("integer", "number"):
        return _NUMBERS[kind] + _range(node)
    if node.get("format") == "path":
        return "a path"
    return _WORDS.get(kind, "")


def _range(node: Schema) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    above = node.get("exclusiveMinimum")
    if above is not None and high is not None:
        return f" above {_digits(above)} and up to {_digits(high)}"
    if low is None or high is None:
        return ""
    if high >= 2**53 - 1:  # there for the machine's sake
        return f", {_digits(low)} or more"
    return f" from {_digits(low)} to {_digits(high)}"


def _digits(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)
