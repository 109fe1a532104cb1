"""What every reader of a file of HTCondor's is: bytes in, events out, to be stopped and continued at any byte.

The rules, which ``tests/importing`` holds for each reader:

* ``read`` takes whole records from the beginning of what it is given, and says how many bytes they were. What is left
  is given again with more behind it. So the events do not depend on where the pieces were cut.
* An unfinished record at the end is left, whether or not anything will ever follow.
* A record that makes no sense becomes a ``SourceRefused`` with its line, and the next one is read. Nothing raises.
* ``state`` is all that a reader made later has to be given to go on as if it had never stopped.
* Secrets of claims never leave a reader: see ``without_secrets``.
"""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import Any, Protocol

from attrs import frozen

from ...domain.events import Event, SourceRefused

State = dict[str, Any]
"""JSON: texts, numbers, lists and dicts with texts as keys."""

KEPT = 200
"""So much of a record that could not be read is kept, in characters."""


@frozen
class Source:
    """What is being read. ``modified`` is the file's time of modification (seconds), for times without a year;
    ``now`` the instant of the import in microseconds; ``time_format`` is DEBUG_TIME_FORMAT where the user says it,
    else empty: readers know the usual ones by themselves."""

    number: int
    path: str
    kind: str
    machine: str
    zone: tzinfo
    modified: float
    now: int
    time_format: str = ""

    def refused(self, line: int, words: str, text: str, at: int = 0) -> SourceRefused:
        """The event of a record that could not be read."""
        text = without_secrets(text[:KEPT])
        return SourceRefused(at or self.now, "refused", f"{self.number}:{line}", self.number, line, words, text)


class Reader(Protocol):
    """Reads one source. ``line`` is the number of lines that were read so far."""

    line: int

    def __init__(self, source: Source, state: State | None, line: int) -> None:
        """`state` is what an earlier reader of this source, or of the one that it continues, left; None at first."""

    def read(self, data: bytes) -> tuple[list[Event], int]:
        """The events of the whole records at the beginning of `data`, and how many bytes these were."""

    def state(self) -> State: ...


PRIVATE = frozenset(
    name.lower()
    for name in (
        "Capability",
        "ChildClaimIds",
        "ClaimId",
        "ClaimIdList",
        "ClaimIds",
        "PairedClaimId",
        "PreemptingClaimId",
        "TransferKey",
    )
)
"""The attributes of ads that hold secrets, in lower case (HTCondor's own list of private attributes)."""

_SECRET = re.compile(r"""(#\d{6,}#\d+#)(?!\.\.\.)(?:\[[^\]\n]*\])?[^\s",;)>\]]*""")


def is_private(name: str) -> bool:
    """Whether an attribute is not to be kept."""
    name = name.lower()
    return name in PRIVATE or name.startswith("_condor_priv")


def without_secrets(text: str) -> str:
    """The text, each claim id in it cut to its public part."""
    return _SECRET.sub(r"\1...", text) if "#" in text else text
