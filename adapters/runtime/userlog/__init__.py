"""The users' job logs, in the format of HTCondor's user log.

``UserLogs`` folds the pool's events into texts, each with its file (``fold``; ``logged_clusters`` and ``logged_runs``
are its state, ``event_text`` has the text of each event). ``UserLogWriter`` appends them to the files, each exactly
once (``writer``, ``files``, ``checkpoint``). Nothing here decides about a job, and the pool never reads these files.
docs/userlog.md says what is written when.
"""

from typing import TYPE_CHECKING

from ....domain.late_names import late_names

if TYPE_CHECKING:
    from .checkpoint import Failure, UserLogError
    from .event_text import Stamp, stamps
    from .files import unwritable
    from .fold import UserLogs
    from .writer import UserLogWriter

__all__ = ["Failure", "Stamp", "UserLogError", "UserLogWriter", "UserLogs", "stamps", "unwritable"]

# A submission asks of a user's log alone whether it can be written.
__getattr__ = late_names(
    __name__,
    {
        "Failure": "checkpoint",
        "Stamp": "event_text",
        "UserLogError": "checkpoint",
        "UserLogWriter": "writer",
        "UserLogs": "fold",
        "stamps": "event_text",
        "unwritable": "files",
    },
)
