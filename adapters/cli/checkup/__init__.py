"""The checks of ``poolbook doctor``: what is wrong with this machine, its configuration and its log.

``gathering`` reads the machine, the disk and the log, and changes none of them. It returns the `Facts`, which
``checks`` judges, reading nothing else.
"""

from .checks import CHECKS, Check, Facts, Finding, Level, examined
from .gathering import gathered

__all__ = ["CHECKS", "Check", "Facts", "Finding", "Level", "examined", "gathered"]
