"""Read HTCondor's configuration language: from the text of condor_config files to settings in force.

``sources`` has the way in (``read``), and the order in which files, the environment and detected names are read.
Nothing here reads a pool's files, runs a command, asks the time or draws random numbers: ``ConfigFiles`` answers for
the disk, a mapping of detected names for the machine, a seed for chance.
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
