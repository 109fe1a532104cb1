"""The result of an audit of a pool's own log, or of an import."""

from __future__ import annotations

from attrs import define, field, frozen

from ..domain.state_machines import DIALECTS, MANUAL, SlotRow, classify
from .listing.event_lines import LETTERS

_MANUAL = tuple(row.number for row in MANUAL.slot_rows)
_HALVES = {SlotRow.CANCEL_DRAIN_RETIRING: SlotRow.CANCEL_DRAIN, SlotRow.OWNER_LEAVES_RETIRING: SlotRow.OWNER_LEAVES}
"""The rows of the dialect that are half of a transition with a number in the manual, and the row of the other half."""
_DRAWN = frozenset({SlotRow.END_JOB, SlotRow.END_CLEANING, *_HALVES})
"""Dialect rows that have a number in the manual's diagram for HTCondor 25, which has Cleaning between the two parts of
12."""


@frozen
class AuditFinding:
    """A violation of a rule."""

    thing: str
    rule: str  #: a rule in one of the ``rules.txt`` files
    words: str
    at: int
    file: str  #: the record's file; for a native log, the log (`line` is the position)
    line: int
    story: tuple[str, ...]  #: the subject's last records, ending with the violation, each with time and location


@frozen
class SourceValue:
    """The value of a fact according to one source, as displayed, and its location."""

    kind: str  #: one of ``record_sources.KINDS``
    value: str
    file: str
    line: int


@frozen
class Contradiction:
    """A disputed fact (from ``compared_facts.FACTS``). ``run`` is the number of the job's run, from 1, or 0 for no
    run."""

    thing: str
    fact: str
    words: str
    at: int
    run: int
    stated: tuple[SourceValue, ...]


@frozen
class UnreadRecord:
    file: str
    line: int
    words: str
    text: str


@frozen
class MissingRecords:
    """Records that are missing before ``line`` of ``file``, between two instants (0: unknown)."""

    file: str
    line: int
    words: str
    since: int
    until: int


@frozen
class UnaccountedTime:
    """A period in which a slot's state is unknown, and the reason."""

    slot: str
    since: int
    until: int
    words: str


@define
class Audit:
    """The result of an audit.

    >>> audit = log.audit()
    >>> audit.verdict, audit.violations, audit.contradictions
    ('sound', [], [])
    """

    dialect: str = ""
    imported: bool = False
    events: int = 0
    began: int = 0  #: the first instant of the records
    ended: int = 0  #: the last instant of the records
    sources: list[tuple[str, str, int]] = field(factory=list)  #: file, kind and number of lines
    transitions: dict[str, int] = field(factory=dict)
    """The number of slot transitions by the manual's number (including those with none), or by the dialect's row."""
    letters: dict[str, int] = field(factory=dict)  #: the number of slot transitions by the manual's letter
    beyond: dict[str, int] = field(factory=dict)  #: the transitions that only the dialect allows, by its row
    undocumented: dict[str, int] = field(factory=dict)  #: the transitions in ``beyond`` without a number in any manual
    jobs: dict[str, int] = field(factory=dict)
    lost: list[AuditFinding] = field(factory=list)
    """Jobs whose records stop although the log continues; this breaks no rule."""
    repeated: list[AuditFinding] = field(factory=list)  #: legal repetitions of events
    noted: list[AuditFinding] = field(factory=list)
    """Findings that are violations unless files were cut, or were copied at different times."""
    violations: list[AuditFinding] = field(factory=list)
    contradictions: list[Contradiction] = field(factory=list)
    quarantined: list[UnreadRecord] = field(factory=list)
    gaps: list[MissingRecords] = field(factory=list)
    unaccounted: list[UnaccountedTime] = field(factory=list)
    torn: list[tuple[str, int]] = field(factory=list)  #: files that end in an incomplete record, and its size in bytes
    unchecked: dict[str, str] = field(factory=dict)
    """The roles that the log quotes and whose logs were not compared, with the ids of these logs."""
    seal: list[tuple[int | None, str]] = field(factory=list)
    """Changes to the log after it was written: the position (None: the whole log) and a description."""
    seal_checked: bool = False
    id: str = ""  #: the log's id, or empty if its events cannot be read
    judged: bool = False  #: whether at least one record could be audited

    @property
    def sound(self) -> bool:
        return self.verdict == "sound"

    @property
    def verdict(self) -> str:
        """Return "sound", "not sound" or "nothing read"."""
        if self.violations or self.contradictions or self.seal:
            return "not sound"
        return "sound" if self.judged else "nothing read"


def count_transitions(audit: Audit, steps: dict[tuple[str, str], int]) -> None:
    """Count slot transitions by the manual's numbers and letters and by the dialect's rows; skip unknown
    transitions."""
    audit.transitions = dict.fromkeys(_MANUAL, 0) | audit.transitions
    for (source, target), times in steps.items():
        rows = classify(MANUAL, source, target)
        if not rows:
            rows = classify(DIALECTS[audit.dialect], source, target) if audit.dialect in DIALECTS else ()
            if rows:
                number = rows[0].number
                audit.beyond[number] = audit.beyond.get(number, 0) + times
                if number not in _DRAWN:
                    audit.undocumented[number] = audit.undocumented.get(number, 0) + times
        if rows:
            number = _HALVES.get(rows[0].number, rows[0].number)
            audit.transitions[number] = audit.transitions.get(number, 0) + times
            letter = LETTERS.get(rows[0].number, "")
            if letter:
                audit.letters[letter] = audit.letters.get(letter, 0) + times
    audit.letters = dict(sorted(audit.letters.items()))
