"""The interface of all readers of HTCondor files: bytes in, events out, interruptible at any byte.

``read`` processes the complete records at the start of its data and returns their length in bytes. The caller passes
the rest again with the next data, so the events do not depend on where the data was split. No reader raises an
exception: an invalid record becomes a ``SourceRefused`` with its line. ``state`` returns what a later reader needs to
continue.
"""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import Any, Protocol

from attrs import frozen

from ...domain.events import DaemonReported, Event, SourceGap, SourceRefused

State = dict[str, Any]  #: JSON: strings, numbers, lists, and dicts with strings as keys

KEPT = 200  #: characters of a rejected record that are stored
_DAEMONS = {
    "startlog": "startd", "startd_history": "startd", "schedlog": "schedd", "history": "schedd",
    "negotiatorlog": "negotiator", "matchlog": "negotiator", "masterlog": "master", "collectorlog": "collector",
    "starterlog": "starter", "shadowlog": "shadow",
}  # fmt: skip
"""The daemon that writes each kind of file in which a record can be reported as inconsistent."""


@frozen
class SourceFile:
    """A file to read. ``modified`` is its modification time (seconds), from which the year of times without one
    follows. ``now`` is the time of the import (microseconds). ``time_format`` is the DEBUG_TIME_FORMAT that the user
    gave, or ""."""

    number: int
    path: str
    kind: str
    machine: str
    zone: tzinfo
    modified: float
    now: int
    time_format: str = ""

    def location_of_line(self, line: int) -> str:
        """Return a line's location in the form in which events name it, such as "3:1201"."""
        return f"{self.number}:{line}"

    def refused(self, line: int, reason: str, text: str, at: int = 0) -> SourceRefused:
        """Return the event for an unreadable record."""
        text = without_secrets(text[:KEPT])
        return SourceRefused(at or self.now, "refused", self.location_of_line(line), self.number, line, reason, text)

    def gap(self, at: int, line: int, reason: str, since: int = 0, until: int = 0, cause: str = "read") -> SourceGap:
        """Return the event for records that are missing before a line."""
        return SourceGap(at, cause, self.location_of_line(line), self.number, line, reason, since, until)

    def inconsistency(self, at: int, line: int, report_name: str, facts: dict[str, str]) -> DaemonReported:
        """Return the event for a record that is inconsistent with the records around it."""
        facts = {name: without_secrets(text) for name, text in facts.items()}
        daemon = _DAEMONS[self.kind]
        return DaemonReported(at, "reported", self.location_of_line(line), self.machine, daemon, report_name, facts)


class SourceReader(Protocol):
    """Reads one source. ``line`` is the number of lines read so far."""

    line: int

    def __init__(self, source: SourceFile, state: State | None, line: int) -> None:
        """Continue from the `state` of an earlier reader of this source, or of its predecessor; None for a new
        source."""

    def read(self, data: bytes) -> tuple[list[Event], int]:
        """Return the events in the complete records at the start of `data`, and their length in bytes."""

    def state(self) -> State: ...


PRIVATE = frozenset(
    """
    Capability ChildClaimIds ClaimId ClaimIdList ClaimIds PairedClaimId PreemptingClaimId TransferKey
    """.lower().split()
)
"""The attributes of ads that contain secrets, in lower case (HTCondor's own list of private attributes)."""

_SECRET = re.compile(r"""(#\d{6,}#\d+#)(?!\.\.\.(?!\.))(?:\.{4,}|(?:\[[^\]\n]*\])?[^\s",;)>\]]*)""")
_CLAIM = re.compile(rb"""(#\d{6,}#\d+#)(?!\.\.\.)((?:\[[^\]\n]*\])?[^\s",;)>\]<]*)""")
_NAMED = re.compile(
    rb"(?i)\b(?:(?:" + "|".join(sorted(PRIVATE)).encode() + rb")|_condor_priv\w*)"
    rb"(?:\"?\s*[:=]\s*|\"\s*>\s*<\w+>\s*|[ \t]+(?=\"))"
    rb"(\"(?:[^\"\\\n]|\\[^\n])*|[^\s\"<,;\]}]+)"
)
"""A private attribute with its value, as written in ads, tables, JSON and XML. In prose ("Received ClaimId from ...")
the name has no value."""
_MAY_BE_NAMED = tuple(
    re.compile(stem + rb"(?:\"?\s*[:=]|\"\s*>|[ \t]+\")")
    for stem in (rb"claimid(?<!publicclaimid)(?:s|list)?", rb"capability", rb"transferkey", rb"_condor_priv\w*")
)
"""Part of every match of ``_NAMED`` in lower case. Each begins with plain text, so these are faster to search."""


def is_private(name: str) -> bool:
    """Check whether an attribute is private, so that it must not be stored."""
    name = name.lower()
    return name in PRIVATE or name.startswith("_condor_priv")


def mask_secrets(data: bytes) -> bytes:
    """Replace every secret in a file's bytes by dots, before parsing, so that readers need not handle secrets."""
    if b"#" in data:
        data = _CLAIM.sub(lambda match: match[1] + b"." * len(match[2]), data)
    lower = data.lower()
    if any(pattern.search(lower) for pattern in _MAY_BE_NAMED):
        data = _NAMED.sub(_replace_by_dots, data)
    return data


def _replace_by_dots(match: re.Match[bytes]) -> bytes:
    quote = b'"' if match[1].startswith(b'"') else b""
    return match[0][: match.start(1) - match.start()] + quote + b"." * (len(match[1]) - len(quote))


def without_secrets(text: str) -> str:
    """Return the text with each claim id reduced to its public part, as HTCondor prints it."""
    return _SECRET.sub(r"\1...", text) if "#" in text else text
