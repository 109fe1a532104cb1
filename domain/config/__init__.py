"""Read HTCondor's configuration language: from the text of condor_config files to settings in force.

Nothing here reads a pool's files, runs a command, asks the time or draws random numbers: ``Files`` answers for the
disk, a mapping of detected names for the machine, a seed for chance.

======================  ================================================================================================
``sources``             the order in which files, local files, the environment and detected names are read: ``read``
``reader``              the lines of a text: settings, ``if``, ``include``, ``use``, by the rules of ``macros.lines``
``templates``           ``use CATEGORY : NAME``: the lines that it stands for
``values``              the definitions, and macros by the rules of ``macros.macros``; ``functions``: function macros
``tables``              HTCondor's defaults, templates and names without a default, as data files
``param_info``          which settings are expressions, have a range, or are predefined
``configuration``       the result, a value: settings as texts, numbers, truth values and expressions
``misspelled``          warns of misspelled settings
``policy_errors``       warns of policy expressions that are an error for every job
``unsupported``         warns of settings that HTCondor knows and nothing here follows
======================  ================================================================================================
"""

if __name__ != "poolbook.domain.config":
    raise ImportError(f"import this folder as poolbook.domain.config, not as {__name__}")

from .configuration import Configuration
from .errors import ConfigError, ConfigWarning, Source
from .misspelled import similar_setting
from .reader import Files
from .sources import NoFiles, read
from .unsupported import UnsupportedSetting, is_known, is_supported

__all__ = [
    "ConfigError", "ConfigWarning", "Configuration", "Files", "NoFiles", "Source", "UnsupportedSetting", "is_known",
    "is_supported", "read", "similar_setting",
]  # fmt: skip
