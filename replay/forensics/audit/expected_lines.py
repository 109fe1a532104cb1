"""Find missing lines that a startd writes before every transition of a kind (``expected_lines.txt``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Final, NamedTuple

from attrs import define, field

from ....domain import events as e
from ....domain.package_data import get_data
from ...audit_result import AuditFinding
from ...narration.sentence_tables import tables
from .findings import Misfits

_TABLES: Final = tables(get_data(__package__, "expected_lines.txt"))
_BEFORE: Final[dict[tuple[str, str], list[tuple[int, str]]]] = {}
"""The lines before a transition, each with the number of its expectation."""
for _number, (_step, _lines) in enumerate(_TABLES["expected"].items()):
    _sources, _, _targets = _step.partition(" -> ")
    for _pair in product(_sources.split(", "), _targets.split(", ")):
        _BEFORE.setdefault(_pair, []).extend((_number, _words) for _words in _lines.split("; "))
_NEEDS: Final = {
    "job": "activated", "starter_gone": "starter", "starter exited": "starter", "claim retirement ended": "starter",
}  # fmt: skip
"""Lines that are expected only after another line: a job's number after an activation, a starter's exit after a
signal."""
_CALLED: Final = {
    "requested": "an access point's request",
    "accepted": "the acceptance of the request",
    "owner": "the remote owner",
    "activated": "the claim's activation",
    "job": "the remote job's number",
    "job_over": "the starter's final report",
    "starter_gone": "the end of the starter's process",
}


@define
class LineCensus:
    """Counts the lines that one startd wrote before its slots' transitions, separately for dynamic slots, by the number
    of the expectation and the line."""

    _lines: Misfits = field(factory=lambda: Misfits(at_once=True))

    def count_transition(
        self, event: e.SlotTransitioned, is_dynamic: bool, lines: set[str], finding: Callable[[str], AuditFinding]
    ) -> None:
        """Count a transition and the lines since the slot's last one; `finding` creates a finding from a text."""
        if "command_coalesce_slots" in event.reason:
            return  # for condor_now, a startd ends and creates claims without logging the usual lines
        for number, expected in _BEFORE.get((event.source, event.target), ()):
            needed = _NEEDS.get(expected.partition("|")[0])
            if needed is not None and needed not in lines:
                continue
            is_expected = expected in lines or any(f"/ {part}" in f"/ {event.reason}" for part in expected.split("|"))
            self._lines.count_record(
                (is_dynamic, number, expected), is_expected, partial(_lacking_line, finding, expected)
            )

    def missing_lines(self) -> Iterator[AuditFinding]:
        """Yield the transitions before which a line is missing."""
        return self._lines.only_of_each_kind()


def _lacking_line(finding: Callable[[str], AuditFinding], text: str) -> AuditFinding:
    name = _CALLED.get(text, " or ".join(map(repr, text.split("|"))))
    return finding(f"this startd logged {name} before every other such transition: a line was removed")


# Lines that announce a transition, which follows immediately


class Announcement(NamedTuple):
    """A message after which a startd immediately makes a transition. ``target`` is a prefix of the transition's target
    pair, and one of ``sources`` is a prefix of its source pair."""

    message: str
    target: str
    sources: tuple[str, ...]


def _announcements(table: str) -> tuple[Announcement, ...]:
    rows = ((text, step.partition("->")) for text, steps in _TABLES[table].items() for step in steps.split("; "))
    return tuple(
        Announcement(text, pair.strip(), tuple(sources.strip().split(", "))) for text, (sources, _, pair) in rows
    )


ANNOUNCEMENTS: Final = _announcements("announcements")
REASONS: Final = (*ANNOUNCEMENTS, *_announcements("reasons"))
"""Messages that give the reason of a transition, which need not follow immediately."""


def announced_target(text: str, source: str = "") -> str:
    """Return the target that a message announces, preferably for a transition from ``source``, or "" if it announces
    none."""
    announcements = [announcement for announcement in ANNOUNCEMENTS if text.startswith(announcement.message)]
    from_source = [announcement for announcement in announcements if source.startswith(announcement.sources)]
    return (from_source or announcements)[0].target if announcements else ""


def announced_elsewhere(text: str, source: str, target: str) -> str:
    """Return the transition ("from ... to ...") to which a reason belongs, if it is not the given one; else ""."""
    reasons = [reason for reason in REASONS if text.startswith(reason.message)]
    if not reasons or any(target.startswith(reason.target) and source.startswith(reason.sources) for reason in reasons):
        return ""
    reason = reasons[-1]
    sources = " or ".join(pair.rstrip("/") for pair in reason.sources if pair)
    return " ".join(filter(None, (sources and f"from {sources}", reason.target and f"to {reason.target.rstrip('/')}")))
