"""What the last cycles said of jobs that got nothing, and which of it holds for one job.

A cycle says it once for all jobs that are alike, under the first of them, and not again while nothing about it has
changed. So what is known of a job is the latest refusal of a job that is like it, unless that job was matched since.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import NamedTuple

from attrs import define, evolve, field

from ...domain import events as e
from ...domain.classad import ClassAdSyntaxError, parse, unparse
from ...domain.names import JobId
from ...domain.requests.autoclusters import ALWAYS_SIGNIFICANT
from ...domain.state.proc_ads import Variants
from ..narration.formatting import instant
from ..narration.rejection_words import (
    LIMIT_OF_ONE,
    conditions,
    counted_slots,
    in_short,
    is_same,
    kind,
    left_by_requirements,
    limit,
    names_read,
    not_preempted,
    unmet,
)
from ..narration.sentences import Sentence
from .limit_holders import LimitHolders, told_limits
from .next_cycle import NextCycle

CONCURRENCY = "concurrency"
"""The kind of a refusal for a concurrency limit (``Unmatched.limit``)."""
ROOM = "there is room, and the next cycle decides"
OTHERS = "other jobs come before it in the next cycle"


class Refused(NamedTuple):
    """A cycle's refusal of a job, what stood in its way then, and what stands there now: a reason, or nothing."""

    cycle: Sentence
    then: str
    now: str
    reason: e.Unmatched | None

    @property
    def kind(self) -> str:
        """The kind of what is in the way now; empty: nothing."""
        return "" if self.reason is None else kind(self.reason)

    @property
    def is_over(self) -> bool:
        """Whether something else is in the way now, or nothing."""
        return self.then != ""


@define
class Refusals:
    """The refusals that hold, by the job under which they stand, and what these jobs' ads are made of."""

    last: tuple[int, int] | None = None  #: the last cycle: its position and its instant
    holders: LimitHolders = field(factory=LimitHolders)
    _known: dict[str, tuple[int, e.CycleHeld, e.Unmatched]] = field(factory=dict)
    _limits: dict[str, list[str]] = field(factory=dict)
    """Of each limit that a known refusal names how much there was, and who held it at that cycle."""
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
                self._limits[reason.job] = told_limits(reason, self.holders)

    def of(self, job: str, ad: e.Ad, zone: tzinfo, next_cycle: NextCycle) -> Refused | None:
        """Tell why a job with this ad got nothing, then and now; None if no cycle refused it or its like."""
        found = self.last_of(job, ad)
        if found is None:
            return None
        position, event, reason = found
        reason = _of_the_only_submitter(event, reason)
        concerns_limit = reason.reached and reason.limit in ("", CONCURRENCY)
        facts = {
            "when": instant(event.at, zone),
            "counts": counted_slots(reason),
            "kind": CONCURRENCY if concerns_limit else reason.limit,
            "limit": limit(reason),
            "denied": not_preempted(reason),
            "unmet": unmet(reason, ad),
            "conditions": conditions(reason, ad),
        }
        cycle = Sentence(event.at, position, "refused", facts, event.cause, event.stimulus)
        words, now = self.now(job, ad, next_cycle)
        if now is not None and kind(now) == kind(reason):
            return Refused(cycle, "", words, now)
        if now is not None and is_same(reason, now):
            return Refused(cycle, "", in_short(reason, ()), reason)
        return Refused(cycle, in_short(reason, self._limits[reason.job], past=True), words, now)

    def now(self, job: str, ad: e.Ad, next_cycle: NextCycle) -> tuple[str, e.Unmatched | None]:
        """Tell what stands in a refused job's way now, in words, and as a cycle says it; None: nothing does."""
        last = self.last_of(job, ad)
        held = None if last is None else next_cycle.like(last[1])
        if held is None or any(match.job == job for match in held.matches):
            return ROOM, None
        refusals = evolve(self, known={})
        refusals.note(0, held)
        found = refusals.last_of(job, ad)
        if found is None:
            return OTHERS, None
        reason = _of_the_only_submitter(held, found[2])
        return in_short(reason, told_limits(reason, next_cycle.holders)), reason

    def last_of(self, job: str, ad: e.Ad) -> tuple[int, e.CycleHeld, e.Unmatched] | None:
        """The last refusal of a job with this ad, or of its like, with its cycle and where that stands."""
        significant, submitted = _significant(ad), self._submitted.get(JobId.parse(job).cluster)
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


def _of_the_only_submitter(event: e.CycleHeld, reason: e.Unmatched) -> e.Unmatched:
    """Return a reason with the limit that it comes to where one submitter alone asked."""
    alone = event.statistics.get("ActiveSubmitterCount") == 1
    if alone and left_by_requirements(reason) <= reason.refused_by_slot + reason.taken:
        return evolve(reason, limit=LIMIT_OF_ONE.get(reason.limit, reason.limit))
    return reason


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
