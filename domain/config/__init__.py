"""HTCondor's configuration language: from the text of condor_config files to settings in force.

Nothing here reads a file, runs a command, asks the time or draws by chance: the disk comes as ``Files``, what the
machine is like as a mapping of detected names, chance as a seed. ``reader`` takes the lines (by the rules of
``submit.lines`` and ``conditions``) and ``uses`` the templates, into ``values``, where macros are expanded by the rules
of ``submit.macros``; ``tables`` has what needs no file; ``sources`` has the order of it all. The outcome is a
``Configuration``, a value; ``misspelled`` warns of what is probably misspelled, ``faults`` of what is an error for
every job, ``unfollowed`` of what nothing here follows.
"""

if __name__ != "poolbook.domain.config":
    raise ImportError(f"import this folder as poolbook.domain.config, not as {__name__}")

from .configuration import Configuration
from .errors import ConfigError, ConfigWarning, Source
from .misspelled import similar_setting
from .reader import Files
from .sources import NoFiles, read
from .unfollowed import Unfollowed, is_followed, is_known

__all__ = [
    "ConfigError",
    "ConfigWarning",
    "Configuration",
    "Files",
    "NoFiles",
    "Source",
    "Unfollowed",
    "is_followed",
    "is_known",
    "read",
    "similar_setting",
]
