"""One frozen `Settings`, from flags, the environment, a file and defaults, in that order.

Nothing else in the package reads the environment; what needs a variable asks here.
"""

from gpu_scheduler.settings.errors import SettingsError
from gpu_scheduler.settings.foreign import NO_EFFECT
from gpu_scheduler.settings.json_schema import json_schema
from gpu_scheduler.settings.keys import Key, all_keys
from gpu_scheduler.settings.load import (
    Loaded,
    WithoutEffect,
    load_settings,
    load_with_origins,
)
from gpu_scheduler.settings.model import (
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
from gpu_scheduler.settings.notices import NoticeSettings
from gpu_scheduler.settings.process import default_data_dir, process_environ
from gpu_scheduler.settings.sample import SAMPLE_FORMATS, sample
from gpu_scheduler.settings.show import EffectiveValue, effective_values

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
    "Loaded",
    "LoggingSettings",
    "NoticeSettings",
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
