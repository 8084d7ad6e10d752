"""Base class and shared types of the sections of the settings."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    # What pydantic says of a wrong value would show the value, and it may be a password.
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=False, hide_input_in_errors=True
    )


def _refuse_bool(value: object) -> object:
    # pydantic would take true for 1, and YAML writes `yes` and `on` as true.
    if isinstance(value, bool):
        raise PydanticCustomError("not_a_number", "must be a number, not true or false")
    return value


def _expand(path: Path) -> Path:
    return path.expanduser()


def _refuse_empty(value: object) -> object:
    if value == "":
        raise PydanticCustomError("not_a_path", "must be a path; leave the key out for the default")
    return value


# After the limits in an Annotated: pydantic keeps limits in the schema only next to the type.
def _on_or_off(value: object) -> object:
    """YAML takes the bare words `on` and `off` for true and false."""
    return ("on" if value else "off") if isinstance(value, bool) else value


NOT_BOOL = BeforeValidator(_refuse_bool)
ON_OR_OFF = BeforeValidator(_on_or_off)
FilePath = Annotated[Path, BeforeValidator(_refuse_empty), AfterValidator(_expand)]
SecretText = Annotated[SecretStr, Field(min_length=1, max_length=10_000)]
