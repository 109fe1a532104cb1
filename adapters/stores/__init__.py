"""The stores of a log: memory, an SQLite file, or a PostgreSQL schema; its seal, and the mark beside it.

``open_log`` opens a log by its URL, ``verify_seal`` checks that it still holds what was appended, and ``head_of``
returns its head without loading events. No store knows what an event means to a pool. A store imports its library when
a log of its kind is opened. docs/log.md says what the stores promise.
"""

from typing import TYPE_CHECKING

from ...domain.late_names import late_names
from .fast_head import head_of

if TYPE_CHECKING:
    from .opening import open_log, verify_seal
    from .verification import Problem

__all__ = ["Problem", "head_of", "open_log", "verify_seal"]

# Events and codec take longer to import than a short command may run: they are loaded when they are asked for.
__getattr__ = late_names(__name__, {"open_log": "opening", "verify_seal": "opening", "Problem": "verification"})
