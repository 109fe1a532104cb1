"""The checks of ``poolbook doctor``: what is wrong with this machine, its configuration and its log.

``gathering`` and ``about_log`` read the machine, the disk and the log, and change none of them. They return the values
of ``facts``. ``checks`` judges these and reads nothing else.
"""

if __name__ != "poolbook.adapters.cli.checkup":
    raise ImportError(f"import this folder as poolbook.adapters.cli.checkup, not as {__name__}")

from .checks import CHECKS, Check, Finding, Level, examined
from .facts import Facts
from .gathering import gathered

__all__ = ["CHECKS", "Check", "Facts", "Finding", "Level", "examined", "gathered"]
