"""The settings in use, for people and programs. Secrets are masked here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tgpu.settings.keys import Key, all_keys
from tgpu.settings.load import LoadedSettings
from tgpu.settings.masking import MASK, mask_url
from tgpu.settings.model import Settings

DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """One setting. `value` is plain data, fit for JSON; `source` says where it came from."""

    key: str
    value: object
    source: str


def effective_values(loaded: LoadedSettings) -> list[EffectiveValue]:
    """Every setting in the order of the reference."""
    values = loaded.settings.model_dump(mode="json")
    return [
        EffectiveValue(
            key.name,
            _value(loaded.settings, values, key),
            loaded.origins.get(key.name, DEFAULT),
        )
        for key in all_keys()
    ]


def _value(settings: Settings, values: Mapping[str, Any], key: Key) -> object:
    value: Any = values
    for step in key.name.split("."):
        value = value[step]
    if key.name == "notices":  # most keys are for other kinds than its own
        return [notice.model_dump(mode="json", exclude_unset=True) for notice in settings.notices]
    if key.name == "database.path" and settings.database.kind == "sqlite":
        return str(settings.database_path)
    if not key.is_secret or value is None:
        return mask_url(value) if isinstance(value, str) else value
    url = settings.database.url
    return mask_url(url.get_secret_value()) if key.name == "database.url" and url else MASK
