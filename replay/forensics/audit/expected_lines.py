"""Find a missing line of the ones that a startd writes before each transition of a kind (``expected_lines.txt``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pkgutil import get_data
from typing import Final, NamedTuple

from attrs import define, field

from ....domain import events as e
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
"""Words that need others before them: of a job if there is one, of a starter's exit if a starter was signalled."""
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
    """The lines that one startd wrote before its slots' transitions, by dynamic slot or not, number of the expectation
    and words."""

    _lines: Misfits = field(factory=lambda: Misfits(at_once=True))

    def take(
        self, event: e.SlotTransitioned, is_dynamic: bool, lines: set[str], finding: Callable[[str], AuditFinding]
    ) -> None:
        """Count a transition and the words since the slot's last one; `finding` makes a finding of words."""
        if "command_coalesce_slots" in event.reason:
            return  # for condor_now a startd ends claims and begins one without the usual lines
        for number, expected in _BEFORE.get((event.source, event.target), ()):
            if expected in _NEEDS and _NEEDS[expected] not in lines:
                continue
            is_expected = expected in lines or any(f"/ {part}" in f"/ {event.reason}" for part in expected.split("|"))
            self._lines.judge((is_dynamic, number, expected), is_expected, partial(_lacking_line, finding, expected))

    def missing_lines(self) -> Iterator[AuditFinding]:
        """Yield the transitions before which a line is missing."""
        return self._lines.only_of_each_kind()


def _lacking_line(finding: Callable[[str], AuditFinding], text: str) -> AuditFinding:
    name = _CALLED.get(text, " or ".join(map(repr, text.split("|"))))
    return finding(f"this startd logged {name} before every other such transition: a line was removed")


# Lines that announce a transition, which follows at once


class Announcement(NamedTuple):
    """Words after which a startd makes a transition at once; ``target`` begins the transition's target pair, and one of
    ``sources`` its source pair."""

    words: str
    target: str
    sources: tuple[str, ...]


def _announcements(table: str) -> tuple[Announcement, ...]:
    rows = ((text, step.partition("->")) for text, steps in _TABLES[table].items() for step in steps.split("; "))
    return tuple(
        Announcement(text, target_pair.strip(), tuple(source_pairs.strip().split(", ")))
        for text, (source_pairs, _, target_pair) in rows
    )


ANNOUNCEMENTS: Final = _announcements("announcements")
REASONS: Final = (*ANNOUNCEMENTS, *_announcements("reasons"))
"""Words that give the reason of a transition. Not every one of these is followed by it at once."""


def announced_target(text: str, source: str = "") -> str:
    """Return where the words lead, from ``source`` if they lead somewhere from there; "" if they announce nothing."""
    announcements = [announcement for announcement in ANNOUNCEMENTS if text.startswith(announcement.words)]
    from_source = [announcement for announcement in announcements if source.startswith(announcement.sources)]
    return (from_source or announcements)[0].target if announcements else ""


def announced_elsewhere(text: str, source: str, target: str) -> str:
    """Return where the words of a transition's reason belong, "from ... to ...", if not there; else ""."""
    reasons = [reason for reason in REASONS if text.startswith(reason.words)]
    if not reasons or any(target.startswith(reason.target) and source.startswith(reason.sources) for reason in reasons):
        return ""
    reason = reasons[-1]
    sources = " or ".join(pair.rstrip("/") for pair in reason.sources if pair)
    return " ".join(filter(None, (sources and f"from {sources}", reason.target and f"to {reason.target.rstrip('/')}")))
