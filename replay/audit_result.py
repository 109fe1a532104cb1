"""The result of an audit, of a log of Poolbook's own or of an import."""

from __future__ import annotations

from attrs import define, field, frozen

from ..domain.state_machines import DIALECTS, MANUAL, SlotRow, classify
from .listing import LETTERS

_MANUAL = tuple(row.number for row in MANUAL.slot_rows)
_HALVES = {SlotRow.CANCEL_DRAIN_RETIRING: SlotRow.CANCEL_DRAIN, SlotRow.OWNER_LEAVES_RETIRING: SlotRow.OWNER_LEAVES}
"""Rows of the dialect that are halves of what the manual numbers."""
_DRAWN = frozenset({SlotRow.END_JOB, SlotRow.END_CLEANING, *_HALVES})
"""Rows of the dialect alone that have a number all the same: the diagram of HTCondor 25's manual draws Cleaning between
the two parts of 12."""


@frozen
class AuditFinding:
    """Something that was not allowed. ``thing``: a job (12.3), a slot, a daemon; ``rule`` is one of ``rules.RULES``;
    ``file`` and ``line`` are where the record stands (for a log of Poolbook's own: the log, and the position);
    ``story`` is what is told of the thing just before, the record itself last, each line with its time and place."""

    thing: str
    rule: str
    words: str
    at: int
    file: str
    line: int
    story: tuple[str, ...]


@frozen
class SourceValue:
    """What one source says of a fact, as people read it, and where."""

    kind: str
    """One of ``reports.KINDS``."""
    value: str
    file: str
    line: int


@frozen
class Contradiction:
    """Sources that say different things of the same fact. ``fact`` is one of ``facts.FACTS``; ``run`` is the number of
    the job's run that it is about, from 1, or 0."""

    thing: str
    fact: str
    words: str
    at: int
    run: int
    stated: tuple[SourceValue, ...]


@frozen
class UnreadRecord:
    """A record that could not be read."""

    file: str
    line: int
    words: str
    text: str


@frozen
class MissingRecords:
    """Records that are missing: before ``line`` of ``file``, of the time between two instants (0: not known)."""

    file: str
    line: int
    words: str
    since: int
    until: int


@frozen
class UnaccountedTime:
    """Time of a slot of which nothing is known, and why."""

    slot: str
    since: int
    until: int
    words: str


@define
class Audit:
    """All that an audit found. ``transitions``: by the manual's number, and by the dialect's row where the manual has
    no number; every number of the manual is there. ``beyond``: those of them that only the dialect allows, by its row.
    ``undocumented``: those of these that have no number in any manual. ``letters``: between states."""

    dialect: str = ""
    imported: bool = False
    events: int = 0
    began: int = 0
    ended: int = 0
    """The first and the last instant that is told of."""
    sources: list[tuple[str, str, int]] = field(factory=list)
    """File, kind and the number of its lines."""
    transitions: dict[str, int] = field(factory=dict)
    letters: dict[str, int] = field(factory=dict)
    beyond: dict[str, int] = field(factory=dict)
    undocumented: dict[str, int] = field(factory=dict)
    jobs: dict[str, int] = field(factory=dict)
    """How many jobs there are, by what became of them."""
    lost: list[AuditFinding] = field(factory=list)
    """Jobs of which nothing is heard any more, though others go on: no rule is broken by that."""
    repeated: list[AuditFinding] = field(factory=list)
    """Events that came twice, and may."""
    violations: list[AuditFinding] = field(factory=list)
    contradictions: list[Contradiction] = field(factory=list)
    quarantined: list[UnreadRecord] = field(factory=list)
    gaps: list[MissingRecords] = field(factory=list)
    unaccounted: list[UnaccountedTime] = field(factory=list)
    torn: list[tuple[str, int]] = field(factory=list)
    """Files that end within a record, and with how many bytes of it."""
    seal: list[tuple[int | None, str]] = field(factory=list)
    """Where the log is not what was written to it: position (None: as a whole) and words."""
    seal_checked: bool = False
    judged: bool = False
    """Whether any record was read that could be judged."""

    @property
    def sound(self) -> bool:
        return self.verdict == "sound"

    @property
    def verdict(self) -> str:
        """ "sound", "not sound", or "nothing read": then there is nothing to be either."""
        if self.violations or self.seal:
            return "not sound"
        return "sound" if self.judged else "nothing read"


def count_transitions(audit: Audit, steps: dict[tuple[str, str], int]) -> None:
    """Count slots' transitions by the manual's numbers, by its letters, and by the rows of the dialect alone. A
    transition that no row allows is not counted."""
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
