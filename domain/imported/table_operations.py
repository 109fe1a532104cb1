"""Number the operations of job_queue.log and Accountantnew.log as in the file."""

from __future__ import annotations

from typing import Final

NEW_AD: Final = 101
DESTROY_AD: Final = 102
SET_ATTRIBUTE: Final = 103
DELETE_ATTRIBUTE: Final = 104
BEGIN_TRANSACTION: Final = 105
END_TRANSACTION: Final = 106
LOG_SEQUENCE: Final = 107
"""The file's sequence number among its rotations, and when the first was begun: the table begins anew."""
