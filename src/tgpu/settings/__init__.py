"""One frozen `Settings`, from flags, the environment, a file and defaults, in that order.

Nothing else in the package reads the environment; what needs a variable asks here.
"""

from tgpu.settings.errors import SettingsError
from tgpu.settings.json_schema import json_schema
from tgpu.settings.keys import Key, all_keys
from tgpu.settings.load import (
    LoadedSettings,
    OldName,
    WithoutEffect,
    load_settings,
    load_with_origins,
)
from tgpu.settings.model import (
    ApiSettings,
    AuthSettings,
    BillingSettings,
    DatabaseSettings,
    DeviceSettings,
    EngineSettings,
    LimitSettings,
    LoggingSettings,
    QuotaSettings,
    SchedulerSettings,
    Settings,
    TenantSettings,
    is_loopback,
)
from tgpu.settings.notices import NoticeSettings
from tgpu.settings.process import default_data_dir, process_environ
from tgpu.settings.sample import SAMPLE_FORMATS, sample
from tgpu.settings.setting_aliases import NO_EFFECT
from tgpu.settings.show import EffectiveValue, effective_values
from tgpu.settings.user_map import MapRuleSettings

__all__ = [
    "NO_EFFECT",
    "SAMPLE_FORMATS",
    "ApiSettings",
    "AuthSettings",
    "BillingSettings",
    "DatabaseSettings",
    "DeviceSettings",
    "EffectiveValue",
    "EngineSettings",
    "Key",
    "LimitSettings",
    "LoadedSettings",
    "LoggingSettings",
    "MapRuleSettings",
    "NoticeSettings",
    "OldName",
    "QuotaSettings",
    "SchedulerSettings",
    "Settings",
    "SettingsError",
    "TenantSettings",
    "WithoutEffect",
    "all_keys",
    "default_data_dir",
    "effective_values",
    "is_loopback",
    "json_schema",
    "load_settings",
    "load_with_origins",
    "process_environ",
    "sample",
]
