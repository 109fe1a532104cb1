"""What the last cycles said of jobs that got nothing, and which of it holds for one job.

A cycle says it once for all jobs that are alike, under the first of them, and not again while nothing about it has
changed. So what is known of a job is the latest refusal of a job that is like it, unless that job was matched since.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo

from attrs import asdict, define, evolve, field

from ...domain import events as e
from ...domain.classad import ClassAd, ClassAdSyntaxError, parse, unparse
from ...domain.classad.tree import Parentheses
from ...domain.negotiator.autoclusters import ALWAYS_SIGNIFICANT
from ...domain.state.proc_ads import Variants
from ..narration.sentences import Sentence
from ..narration.wording import counted, instant, shortened


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
        found = self.last_of(job, ad)
        if found is None:
            return None
        position, event, reason = found
        alone = event.statistics.get("ActiveSubmitterCount") == 1
        if alone and _left(reason) <= reason.refused_by_slot + reason.taken:
            reason = evolve(reason, limit=_LIMIT_OF_ONE.get(reason.limit, reason.limit))
        text = f"The negotiation cycle at {instant(event.at, zone)} had no slot for it: {_explained(reason, ad)}."
        more = _conditions(reason, ad)
        return _in_short(reason), Sentence(event.at, position, text, event.cause, event.stimulus, more)

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
    if not reason.slots:
        return "the pool had no slots"
    left = _left(reason)
    said = [f"of {counted(reason.slots, 'slot')}, {_meet(reason, ad)}"]
    if reason.refused_by_slot:
        refuse = "refuses it by its" if reason.refused_by_slot == 1 else "refuse it by their"
        said.append(f"{_of_these(reason.refused_by_slot, left)} {refuse} own Requirements")
    if reason.taken:
        are = "is" if reason.taken == 1 else "are"
        said.append(f"{_of_these(reason.taken, left)} {are} in use, or went to jobs before it")
    denied = [_DENIED[name](count) for name, count in _counts(reason.denied).items()]
    if denied:
        total = sum(_counts(reason.denied).values())
        accept = _so_many(total, "accepts it, but does", "accept it, but do")
        said.append(f"of those in use, with the dynamic ones, {accept} not change hands ({', '.join(denied)})")
    return "; ".join([", ".join(said), *filter(None, [_limit(reason)])])


def _of_these(count: int, whole: int) -> str:
    if count < whole:
        return f"{count} of these"
    return "which" if whole == 1 else "all of which"


def bare(source: str) -> str:
    """An expression's text without the brackets around the whole."""
    try:
        node = parse(source)
    except ClassAdSyntaxError:
        return source
    while isinstance(node, Parentheses):
        node = node.inner
    return unparse(node)


def _left(reason: e.Unmatched) -> int:
    return reason.clauses[-1].left if reason.clauses else reason.slots


def _meet(reason: e.Unmatched, ad: e.Ad) -> str:
    """How many slots meet the job's Requirements; if none, the conditions that no slot meets by itself."""
    left = _left(reason)
    if left:
        return f"{left:,} {'meets' if left == 1 else 'meet'} its Requirements"
    none = [shortened(bare(each.text), 120) + _with(each.text, ad) for each in reason.clauses if not each.alone]
    return f"none meets {' or '.join(none) or 'all conditions of its Requirements'}"


def _conditions(reason: e.Unmatched, ad: e.Ad) -> str:
    """How many slots each condition of the job's Requirements left, as a sentence; empty if it has none."""
    said = [f"{each.text}{_with(each.text, ad)} leaves {each.left}" for each in reason.clauses]
    return f"Its Requirements, condition by condition: {', '.join(said)}." if said and reason.slots else ""


def fits_none(reason: e.Unmatched) -> bool:
    """Whether no slot and the job accepted each other, free or not."""
    return _left(reason) <= reason.refused_by_slot


def _counts(denied: e.Denied | None) -> dict[str, int]:
    """How many slots were denied for what, without those that none was."""
    return {} if denied is None else {name: count for name, count in asdict(denied).items() if count}


_DENIED: dict[str, Callable[[int], str]] = {
    "policy": lambda count: f"PREEMPTION_REQUIREMENTS is not true of {count}",
    "rank": lambda count: f"{_so_many(count, 'prefers the job that it has', 'prefer the jobs that they have')}",
    "priority": lambda count: f"{_so_many(count, 'is', 'are')} used by somebody with no worse priority",
    "own": lambda count: f"{_so_many(count, 'is', 'are')} used by its submitter",
    "never": lambda count: f"{_so_many(count, 'is', 'are')} left alone, as NEGOTIATOR_CONSIDER_PREEMPTION is false",
}
_IN_SHORT = {
    "policy": "what it fits on is in use, and PREEMPTION_REQUIREMENTS does not let it have that",
    "rank": "what it fits on is in use, and prefers the jobs that it has",
    "priority": "what it fits on is in use, by those who have no worse priority",
    "own": "what it fits on is in use, by its own submitter",
    "never": "what it fits on is in use, and nobody has to make room",
}


def _so_many(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


_LIMIT_OF_ONE = {"share": "slots"}
"""What stood in the way of the only submitter who asked, whose share is the pool, when no slot was left."""


def _limit(reason: e.Unmatched) -> str:
    """The limit that was in the way, in cores."""
    if reason.limit == "share":
        return (
            f"the fair share of {reason.submitter} was used up: it was to have {_cores(reason.allowed)}, and had "
            f"{reason.used:g}"
        )
    if reason.limit == "slots":
        return f"{reason.submitter}, the only submitter, had {_cores(reason.used)}, which is all there are"
    if reason.limit == "ceiling":
        return f"{reason.submitter} may have no more than {_cores(reason.allowed)}, and had {reason.used:g}"
    if reason.limit == "matches":
        return f"{reason.submitter} had got as many matches as it may in a cycle"
    return ""


def _cores(cores: float) -> str:
    return f"{cores:g} core{'' if cores == 1 else 's'}"


def _in_short(reason: e.Unmatched) -> str:
    if reason.limit == "share":
        return f"the fair share of {reason.submitter} is used up"
    if reason.limit == "slots":
        return "every slot that it fits on is in use"
    if reason.limit == "ceiling":
        return f"{reason.submitter} has as much as its ceiling allows"
    if reason.limit == "matches":
        return f"{reason.submitter} got as many matches as it may in a cycle"
    denied = _counts(reason.denied)
    if denied:
        return _IN_SHORT[max(denied, key=lambda name: denied[name])]
    if reason.taken:
        return "what it fits on is taken, and it waits behind others"
    return "the slots that it fits on refuse it now" if reason.refused_by_slot else "no slot has what it asks for now"


def _with(text: str, ad: e.Ad) -> str:
    """The values of the job's own attributes that a clause reads, behind it."""
    lower = {name.lower(): (name, value) for name, value in ad.items()}
    found = dict(lower[short] for name in _read(text) if (short := name.rpartition(".")[2].lower()) in lower)
    return f" ({', '.join(f'{name} = {value}' for name, value in found.items())})" if found else ""


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
