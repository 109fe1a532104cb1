"""What of this machine, its configuration and its log would surprise whoever runs a pool here: ``poolbook doctor``.

``gathering`` and ``about_log`` ask the machine, the disk and the log, and change none of them; what they found are the
values of ``facts``; ``checks`` judges those, and asks nothing.
"""

if __name__ != "poolbook.adapters.cli.checkup":
    raise ImportError(f"import this folder as poolbook.adapters.cli.checkup, not as {__name__}")

from .checks import CHECKS, Check, Finding, Level, examined
from .facts import Facts
from .gathering import gathered

__all__ = ["CHECKS", "Check", "Facts", "Finding", "Level", "examined", "gathered"]
