"""What the last cycles said of jobs that got nothing, and which of it holds for one job.

A cycle says it once for all jobs that are alike, under the first of them, and not again while nothing about it has
changed. So what is known of a job is the latest refusal of a job that is like it, unless that job was matched since.
"""

from __future__ import annotations

from datetime import tzinfo

from attrs import define, field

from ...domain import events as e
from ...domain.classad import ClassAd, ClassAdSyntaxError, parse, unparse
from ...domain.decide.waiting import ALWAYS_SIGNIFICANT
from ...domain.variants import Variants
from ..wording import counted, instant
from .sentences import Sentence


@define
class Refusals:
    """The refusals that hold, by the job under which they stand, and what these jobs' ads are made of."""

    last: Sentence | None = None
    """The last cycle."""
    _known: dict[str, tuple[int, e.CycleHeld, e.Unmatched]] = field(factory=dict)
    _submitted: dict[int, e.ClusterSubmitted] = field(factory=dict)
    _edited: dict[int, list[e.JobsEdited]] = field(factory=dict)

    def note(self, position: int, event: e.Event) -> None:
        if isinstance(event, e.ClusterSubmitted):
            self._submitted[event.cluster] = event
        elif isinstance(event, e.JobsEdited):
            self._edited.setdefault(event.cluster, []).append(event)
        elif isinstance(event, e.CycleHeld):
            self.last = Sentence(event.at, position, "", event.cause, event.stimulus)
            for match in event.matches:
                self._known.pop(match.job, None)
            for reason in event.unmatched:
                self._known[reason.job] = (position, event, reason)

    def of(self, job: str, ad: e.Ad, zone: tzinfo) -> tuple[str, Sentence] | None:
        """In short and at length why a job with this ad got nothing; None if no cycle refused it or its like."""
        significant = _significant(ad)
        found = [known for known in self._known.values() if known[2].job == job or self._alike(known[2], significant)]
        if not found:
            return None
        position, event, reason = max(found, key=lambda known: known[0])
        text = f"The negotiation cycle at {instant(event.at, zone)} had no slot for it: {_explained(reason, ad)}."
        return _in_short(reason), Sentence(event.at, position, text, event.cause, event.stimulus)

    def _alike(self, reason: e.Unmatched, significant: dict[str, str]) -> bool:
        number, _, proc = reason.job.partition(".")
        submitted = self._submitted.get(int(number)) if number.isdigit() and proc.isdigit() else None
        if submitted is None or not 0 <= int(proc) < submitted.count:
            return False
        other = {**submitted.ad, **Variants(submitted.columns).of(int(proc))}
        for edit in self._edited.get(submitted.cluster, ()):
            if any(first <= int(proc) <= last for first, last in edit.procs):
                other |= edit.changes
        return _texts(other, significant) == significant


def _texts(ad: e.Ad, names: dict[str, str]) -> dict[str, str]:
    lower = {name.lower(): text for name, text in ad.items()}
    return {name: lower.get(name, "") for name in names}


def _significant(ad: e.Ad) -> dict[str, str]:
    """What a match depends on, of a job: what is always asked of it, and what its Requirements read of it."""
    names = [name.lower() for name in ALWAYS_SIGNIFICANT]
    names += [name.rpartition(".")[2].lower() for name in _read(ad.get("Requirements", "true"))]
    return _texts(ad, dict.fromkeys(names, ""))


def _read(text: str) -> tuple[str, ...]:
    """The names that an expression may read of its own ad; those of the other ad are scoped, or in neither."""
    try:
        found = parse(text).references(ClassAd())
    except ClassAdSyntaxError:
        return ()
    return tuple(name for name in (*found.internal, *found.external) if not name.lower().startswith("target."))


def _explained(reason: e.Unmatched, ad: e.Ad) -> str:
    said = [f"of {counted(reason.slots, 'slot')}"]
    if not reason.slots:
        return "the pool had no slots"
    for clause in reason.clauses:
        said.append(f"{clause.text}{_with(clause.text, ad)} leaves {clause.left}")
    left = reason.clauses[-1].left if reason.clauses else reason.slots
    if reason.refused_by_slot:
        refuse = "refuses it by its" if reason.refused_by_slot == 1 else "refuse it by their"
        said.append(f"{reason.refused_by_slot} of these {left} {refuse} own Requirements")
    if reason.taken:
        are = "is" if reason.taken == 1 else "are"
        said.append(f"{reason.taken} of these {left} {are} in use, or went to jobs before it")
    return ", ".join(said)


def _in_short(reason: e.Unmatched) -> str:
    if reason.taken:
        return "what it fits on is taken, and it waits behind others"
    return "the slots that it fits on refuse it" if reason.refused_by_slot else "it fits on no slot"


def _with(text: str, ad: e.Ad) -> str:
    """The values of the job's own attributes that a clause reads, behind it."""
    lower = {name.lower(): (name, value) for name, value in ad.items()}
    found = dict(lower[short] for name in _read(text) if (short := name.rpartition(".")[2].lower()) in lower)
    return f" ({', '.join(f'{name} = {value}' for name, value in found.items())})" if found else ""


def evidence_of(notes: list[e.EvidenceNoted], ad: e.Ad) -> e.EvidenceNoted | None:
    """Which of a cycle's notes a job's match rests on: the one with its Requirements, and the values that it has."""
    text = ad.get("Requirements", "")
    try:
        text = unparse(parse(text))
    except ClassAdSyntaxError:
        return None
    fitting = [note for note in notes if note.expression == text]
    for note in fitting:
        mine = {name[3:].lower(): value for name, value in note.read.items() if name.startswith("MY.")}
        if _texts(ad, mine) == mine:
            return note
    return fitting[0] if len(fitting) == 1 else None
