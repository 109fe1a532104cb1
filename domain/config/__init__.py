"""Parse HTCondor's configuration language: from the text of condor_config files to settings.

``sources.read`` reads files, the environment and detected names in HTCondor's order. The package cannot use the disk,
the clock or random numbers; instead, the caller passes a ``ConfigFiles``, a mapping of detected names, and a seed.
"""

from .checks import similar_setting
from .config_errors import ConfigError, ConfigWarning, SettingSource
from .config_reader import ConfigFiles
from .configuration import Configuration
from .sources import NoConfigFiles, read
from .unsupported_settings import UnsupportedSetting, is_known, is_limit, is_supported

__all__ = [
    "ConfigError", "ConfigFiles", "ConfigWarning", "Configuration", "NoConfigFiles", "SettingSource",
    "UnsupportedSetting", "is_known", "is_limit", "is_supported", "read", "similar_setting",
]  # fmt: skip
