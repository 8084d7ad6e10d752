"""One frozen `Settings`, from flags, the environment, a file and defaults, in that order.

Nothing else in the package reads the environment; what needs a variable asks here.
"""

from gpu_scheduler.settings.errors import SettingsError
from gpu_scheduler.settings.keys import Key, all_keys
from gpu_scheduler.settings.load import load_settings
from gpu_scheduler.settings.model import (
    ApiSettings,
    AuthSettings,
    DatabaseSettings,
    DeviceSettings,
    EngineSettings,
    LimitSettings,
    LoggingSettings,
    SchedulerSettings,
    Settings,
    TenantSettings,
    is_loopback,
)
from gpu_scheduler.settings.process import default_data_dir, process_environ
from gpu_scheduler.settings.sample import SAMPLE_FORMATS, sample

__all__ = [
    "SAMPLE_FORMATS",
    "ApiSettings",
    "AuthSettings",
    "DatabaseSettings",
    "DeviceSettings",
    "EngineSettings",
    "Key",
    "LimitSettings",
    "LoggingSettings",
    "SchedulerSettings",
    "Settings",
    "SettingsError",
    "TenantSettings",
    "all_keys",
    "default_data_dir",
    "is_loopback",
    "load_settings",
    "process_environ",
    "sample",
]
