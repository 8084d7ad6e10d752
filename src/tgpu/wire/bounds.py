"""Maximum sizes of the parts of a request: every text, list, object and number has one.

Checked without a call of Python for each element, and a list or object is left at its first wrong
element: what a refusal costs must not grow with what was sent. `tests/unit/wire/test_bounds.py`
walks every request there is and fails for a part without a bound.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    model_validator,
)
from pydantic_core import PydanticCustomError

# The widest integers that JSON readers everywhere keep exact, and SQLite stores.
WIDEST: Final = 2**53 - 1
# What the kernel takes for one argument or variable of a program, without its ending NUL.
LONGEST_ARGUMENT: Final = 131_071
# NUL ends every string of the kernel: it can be neither stored, shown nor given to a program.
NO_NUL: Final = r"^[^\x00]*$"
# Names that are no fields, each with a complaint of its own; of more only the number is told.
_MOST_STRAY: Final = 20
_TOLD: Final = 60  # characters of such a name that a sentence quotes

MOST_ARGUMENTS: Final = 32_768  # of a command: all of them have two megabytes in the kernel
MOST_VARIABLES: Final = 8_192  # of an environment
MOST_PARAMETERS: Final = 64  # of a sweep
MOST_VALUES: Final = 10_000  # of a sweep, which has no more jobs than that

Word = Annotated[str, Field(max_length=256, pattern=NO_NUL)]
Text = Annotated[str, Field(max_length=4096, pattern=NO_NUL)]
Argument = Annotated[str, Field(max_length=LONGEST_ARGUMENT, pattern=NO_NUL)]
Int = Annotated[int, Field(ge=-WIDEST, le=WIDEST)]
# An object of so many names, looked at before its values are: pydantic counts them at the end.
_Check = Callable[[Any], Any]


def at_most(entries: int) -> _Check:
    """For BeforeValidator: an object with more names is not looked into."""

    def check(value: Any) -> Any:
        if isinstance(value, Mapping) and len(value) > entries:
            raise PydanticCustomError(
                "too_long", "must have at most {max_length} entries", {"max_length": entries}
            )
        return value

    return check


def _values_at_most(entries: int) -> _Check:
    def check(value: Any) -> Any:
        if isinstance(value, Mapping):
            lists = (found for found in value.values() if isinstance(found, list))
            if sum(len(found) for found in lists) > entries:
                raise PydanticCustomError(
                    "too_many_values",
                    "must have at most {limit} values in all; submit it in parts",
                    {"limit": entries},
                )
        return value

    return check


def _mapping(entries: int) -> tuple[Any, ...]:
    return (Field(max_length=entries), FailFast(), BeforeValidator(at_most(entries)))


Arguments = Annotated[list[Argument], Field(max_length=MOST_ARGUMENTS), FailFast()]
Variables = Annotated[dict[Word, Argument], *_mapping(MOST_VARIABLES)]
AnyVariables = Annotated[dict[Argument, Argument], *_mapping(MOST_VARIABLES)]
Sweep = Annotated[
    dict[Word, Annotated[list[Argument], Field(max_length=MOST_VALUES), FailFast()]],
    *_mapping(MOST_PARAMETERS),
    BeforeValidator(_values_at_most(MOST_VALUES)),
]
Labels = Annotated[dict[Word, Word], *_mapping(64)]


class BoundedModel(BaseModel):
    """A part of a request. Names that are no fields are complained of, up to a number."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _few_stray_names(cls, value: Any) -> Any:
        if not isinstance(value, dict) or len(value) <= _MOST_STRAY:
            return value
        known = _names_of(cls)
        stray = [name for name in value if name not in known]
        if len(stray) > _MOST_STRAY:
            raise PydanticCustomError(
                "stray_names",
                "has {count} unknown fields, such as {first}; GET /docs shows the known ones",
                {"count": len(stray), "first": repr(stray[0][:_TOLD])},
            )
        return value


class RequestModel(BoundedModel):
    """Nothing is guessed: true is no number, and "5" is text."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, strict=True)


def _names_of(model: type[BaseModel]) -> frozenset[str]:
    names = set(model.model_fields)
    for field in model.model_fields.values():
        alias = field.validation_alias
        if isinstance(alias, AliasChoices):
            names.update(choice for choice in alias.choices if isinstance(choice, str))
        elif isinstance(alias, str):
            names.add(alias)
    return frozenset(names)
