"""The users' job logs, in the format of HTCondor's user log: what happened to a job, for its user and his tools.

``UserLogs`` folds the pool's events into texts, each with the file that it belongs to (``fold``; ``jobs`` and ``runs``
are what it keeps, ``forms`` the text of each event). ``UserLogWriter`` appends them to the files, each exactly once
(``writer``, ``files``, ``progress``). Nothing here decides anything about a job, and nothing in the pool ever reads
these files: the log of the pool is the truth. docs/userlog.md says what is written when.
"""

if __name__ != "poolbook.adapters.runtime.userlog":
    raise ImportError(f"import this folder as poolbook.adapters.runtime.userlog, not as {__name__}")

from .checkpoint import Failure, UserLogError
from .event_text import Stamp, stamps
from .files import unwritable
from .fold import UserLogs
from .writer import UserLogWriter

__all__ = ["Failure", "Stamp", "UserLogError", "UserLogWriter", "UserLogs", "stamps", "unwritable"]
