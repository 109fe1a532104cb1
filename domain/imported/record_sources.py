"""The kinds of sources in an HTCondor pool.

An import converts records to events with the facts in ``reports.txt``; the audit and ``poolbook why`` read only these.
A fact's value is text: a job is "12.3", a claim is its public id (everything before the secret part), an instant is in
microseconds.
"""

from __future__ import annotations

from pkgutil import get_data
from typing import Final, NamedTuple

from ..package_data import lines


class SourceKind(NamedTuple):
    """A kind of source: the letter for it in tables, its name, and the program that writes it."""

    letter: str
    name: str
    writer: str


NOT_STARTED: Final = "108"  #: the status of a shadow that could not start its job
SCHEDD_DIED: Final = "Local schedd and job shadow died"
"""How the reason of a lost connection (entry 022) begins where a schedd that was restarted looks for its jobs."""
NOT_SWITCHED: Final = "it did not switch"  #: the reason of `shadow_gone` where a shadow never had the job
LEAST_AD: Final = 500  #: so many bytes more or less in a history are a whole ad; fewer are a changed value

KINDS: Final = {
    kind: SourceKind(*row.split(" | "))
    for kind, _, row in (line.partition(": ") for line in lines(get_data(__package__, "source_kinds.txt")) if line)
}


class RecordPlace(NamedTuple):
    """The place of a record: the number of its source and its (first) line."""

    source: int
    line: int

    @property
    def stimulus(self) -> str:
        """The place in the form of an event's stimulus."""
        return f"{self.source}:{self.line}"


def place_of(stimulus: str) -> RecordPlace | None:
    """Return the place that an event of an import names; None for any other event."""
    source, colon, line = stimulus.partition(":")
    return RecordPlace(int(source), int(line)) if colon and source.isdecimal() and line.isdecimal() else None


# The operations of job_queue.log and Accountantnew.log, as the files number them

NEW_AD: Final = 101
DESTROY_AD: Final = 102
SET_ATTRIBUTE: Final = 103
DELETE_ATTRIBUTE: Final = 104
BEGIN_TRANSACTION: Final = 105
END_TRANSACTION: Final = 106
LOG_SEQUENCE: Final = 107
"""The file's sequence number among its rotations, and when the first was begun: the table starts empty."""
