"""The kinds of sources of records in an HTCondor pool.

An import converts records to events with the facts in ``reports.txt``, and the audit and ``poolbook why`` read only
these facts. The values are strings: a job is "12.3", a claim is its public id (everything before the secret part), and
an instant is a number of microseconds.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..package_data import get_data, lines


class SourceKind(NamedTuple):
    """A kind of source: its letter in tables, its name, and the program that writes it."""

    letter: str
    name: str
    writer: str


NOT_STARTED: Final = "108"  #: the exit status of a shadow that could not start its job
SCHEDD_DIED: Final = "Local schedd and job shadow died"
"""The beginning of the reason in a disconnect entry (022) that a restarted schedd writes before it reconnects."""
NOT_SWITCHED: Final = "it did not switch"  #: the reason in `shadow_gone` if the shadow never received the job
LEAST_AD: Final = 500  #: a size difference of this many bytes in a history file is an added or missing ad, not an edit

KINDS: Final = {
    kind: SourceKind(*row.split(" | "))
    for kind, _, row in (line.partition(": ") for line in lines(get_data(__package__, "source_kinds.txt")) if line)
}


class RecordPlace(NamedTuple):
    """Where a record is: the number of its source, and the number of its (first) line."""

    source: int
    line: int

    @property
    def stimulus(self) -> str:
        """Return the place in the format of an event's stimulus."""
        return f"{self.source}:{self.line}"


def place_of(stimulus: str) -> RecordPlace | None:
    """Return the place that the stimulus of an imported event names, or None for the stimulus of any other event."""
    source, colon, line = stimulus.partition(":")
    return RecordPlace(int(source), int(line)) if colon and source.isdecimal() and line.isdecimal() else None


# The numbers of the operations in job_queue.log and Accountantnew.log

NEW_AD: Final = 101
DESTROY_AD: Final = 102
SET_ATTRIBUTE: Final = 103
DELETE_ATTRIBUTE: Final = 104
BEGIN_TRANSACTION: Final = 105
END_TRANSACTION: Final = 106
LOG_SEQUENCE: Final = 107
"""The file's sequence number among its rotations, and the creation time of the first file. The table starts empty."""
