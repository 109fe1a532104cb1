"""What the last cycles said of jobs that got nothing, and which of it holds for one job.

A cycle says it once for all jobs that are alike, under the first of them, and not again while nothing about it has
changed. So what is known of a job is the latest refusal of a job that is like it, unless that job was matched since.
"""

from __future__ import annotations

from datetime import tzinfo

from attrs import define, evolve, field

from ...domain import events as e
from ...domain.classad import ClassAdSyntaxError, parse, unparse
from ...domain.negotiator.autoclusters import ALWAYS_SIGNIFICANT
from ...domain.state.proc_ads import Variants
from ..narration.rejection_words import (
    LIMIT_OF_ONE,
    conditions,
    counted_slots,
    in_short,
    left_by_requirements,
    limit,
    names_read,
    not_preempted,
    unmet,
)
from ..narration.sentences import Sentence
from ..narration.wording import instant
from .limit_holders import LimitHolders, told_limits

CONCURRENCY = "concurrency"
"""The kind of a refusal for a concurrency limit (``Unmatched.limit``)."""


@define
class Refusals:
    """The refusals that hold, by the job under which they stand, and what these jobs' ads are made of."""

    last: tuple[int, int] | None = None  #: the last cycle: its position and its instant
    holders: LimitHolders = field(factory=LimitHolders)
    _known: dict[str, tuple[int, e.CycleHeld, e.Unmatched]] = field(factory=dict)
    _submitted: dict[int, e.ClusterSubmitted] = field(factory=dict)
    _edited: dict[int, list[e.JobsEdited]] = field(factory=dict)

    def note(self, position: int, event: e.Event) -> None:
        self.holders.note(event)
        if isinstance(event, e.ClusterSubmitted):
            self._submitted[event.cluster] = event
        elif isinstance(event, e.JobsEdited):
            self._edited.setdefault(event.cluster, []).append(event)
        elif isinstance(event, e.CycleHeld):
            self.last = position, event.at
            for match in event.matches:
                self._known.pop(match.job, None)
            for reason in event.unmatched:
                self._known[reason.job] = (position, event, reason)

    def of(self, job: str, ad: e.Ad, zone: tzinfo) -> tuple[str, Sentence] | None:
        """Tell in short and in a sentence why a job with this ad got nothing; None if no cycle refused it or its
        like."""
        found = self.last_of(job, ad)
        if found is None:
            return None
        position, event, reason = found
        alone = event.statistics.get("ActiveSubmitterCount") == 1
        if alone and left_by_requirements(reason) <= reason.refused_by_slot + reason.taken:
            reason = evolve(reason, limit=LIMIT_OF_ONE.get(reason.limit, reason.limit))
        held = told_limits(reason, self.holders)
        facts = {
            "when": instant(event.at, zone),
            "counts": counted_slots(reason),
            "kind": reason.limit,
            "limit": limit(reason),
            "denied": not_preempted(reason),
            "unmet": unmet(reason, ad),
            "conditions": conditions(reason, ad),
        }
        short = in_short(reason)
        if held and reason.limit in ("", CONCURRENCY):
            facts["kind"] = CONCURRENCY
            which = "concurrency limits are" if len(held) > 1 else "a concurrency limit is"
            short = f"{which} reached: {'; '.join(held)}"
        return short, Sentence(event.at, position, "refused", facts, event.cause, event.stimulus)

    def last_of(self, job: str, ad: e.Ad) -> tuple[int, e.CycleHeld, e.Unmatched] | None:
        """The last refusal of a job with this ad, or of its like, with its cycle and where that stands."""
        significant, submitted = _significant(ad), self._submitted.get(int(job.partition(".")[0]))
        mine = ("", submitted.submitter if submitted is not None else "")
        found = [
            known
            for known in self._known.values()
            if known[2].job == job or (known[2].submitter in mine and self._alike(known[2], significant))
        ]
        return max(found, key=lambda known: known[0], default=None)

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
    names += [name.rpartition(".")[2].lower() for name in names_read(ad.get("Requirements", "true"))]
    return _texts(ad, dict.fromkeys(names, ""))


def fits_none(reason: e.Unmatched) -> bool:
    """Tell whether no slot and the job accepted each other, free or not."""
    return left_by_requirements(reason) <= reason.refused_by_slot


def evidence_of(notes: list[e.EvaluationRecorded], ad: e.Ad) -> e.EvaluationRecorded | None:
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
