"""The checks of ``poolbook doctor``: what is wrong with this machine, its configuration and its log.

``gathering`` and ``about_log`` read the machine, the disk and the log, and change none of them. They return the values
of ``facts``. ``checks`` judges these and reads nothing else.
"""

from .checks import CHECKS, Check, Finding, Level, examined
from .facts import Facts
from .gathering import gathered

__all__ = ["CHECKS", "Check", "Facts", "Finding", "Level", "examined", "gathered"]
