"""Find why a job is not matched: the reason in the last cycle, the reason in the next one, and the holders of limits.

A cycle records one rejection for each autocluster, under its first job, and does not repeat it while the reason stays
the same. So the reason for a job is the latest rejection of its autocluster, unless the named job was matched since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from datetime import tzinfo
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from attrs import define, evolve, field
from msgspec.structs import replace

from ...domain import events as e
from ...domain.classad import ClassAdSyntaxError, parse, unparse
from ...domain.concurrency_limits import PARTS_PER_UNIT, Amount, format_amount, requested_amounts
from ...domain.fold.evolve import fold
from ...domain.names import NEGOTIATOR, JobId
from ...domain.requests.autoclusters import ALWAYS_SIGNIFICANT
from ...domain.startd.public_ad import PublishedSlots
from ...domain.state.caches import Caches
from ...domain.state.negotiators import negotiator_names, negotiator_shown
from ...domain.state.proc_ads import Variants
from ...domain.state.records import Claim, Slot
from ...domain.state.state import State
from ..narration.formatting import instant
from ..narration.rejection_words import (
    LIMIT_OF_ONE,
    conditions_left,
    is_same,
    limits_reached,
    obstacle_kind,
    own_names_read,
    preemption_refusals,
    short_reason,
    slot_counts,
    slots_meeting_requirements,
    unmet_conditions,
)
from ..narration.sentences import Sentence
from ..narration.unmatchable_jobs import undivided_slots
from ..recheck_cycles import cycle_context, repeat_cycle
from .standings import FREE, USED, standings, standings_text

_MOST_HOLDERS = 10  #: the maximum number of holders to list


def _holders(state: State, name: str) -> list[tuple[str, Amount]]:
    """Return the holders of a concurrency limit (lower-case name) with their units: jobs by id, then slots that run no
    job of this pool."""
    claims = [(slot, need) for slot in state.slots.values() for need in (slot.claim, slot.queued_claim)]
    held = [(_of_claim(slot, need), need.limits) for slot, need in claims if need is not None]
    held += [(str(JobId(*job)), need.limits) for jobs in state.matches.values() for job, need in jobs.items()]
    needs = [(holder_name, need) for holder_name, limits in held for need in requested_amounts(limits)]
    units = [(holder_name, need.units) for holder_name, need in needs if need.name == name]
    return sorted(units, key=lambda holder: _order(holder[0]))


def _of_claim(slot: Slot, claim: Claim) -> str:
    """Return the job that a claim runs or will run, or else the slot."""
    run = slot.activation if claim is slot.claim else None
    return f"{run.cluster}.{run.proc}" if run is not None and run.cluster else claim.job or slot.name


def _order(holder_name: str) -> tuple[int, int, int, str]:
    cluster, _, proc = holder_name.partition(".")
    if cluster.isdecimal() and proc.isdecimal():
        return 0, int(cluster), int(proc), ""
    return 1, 0, 0, holder_name


def _limits_in_words(reason: e.Unmatched, state: State) -> list[str]:
    """Return the use and holders of each limit that was reached: "XSW: 3 of 3, held by 1.0, 1.1, 4.2"."""
    return [_limit_text(limit, _holders(state, limit.name)) for limit in reason.reached]


def _limit_text(limit: e.ReachedLimit, holder_units: list[tuple[str, Amount]]) -> str:
    used = sum((units for _, units in holder_units), start=0)
    names = [
        holder if units == PARTS_PER_UNIT else f"{holder} ({format_amount(units)})" for holder, units in holder_units
    ]
    if len(names) > _MOST_HOLDERS:
        names = [*names[:_MOST_HOLDERS], f"{len(names) - _MOST_HOLDERS:,} more"]
    takes = "" if limit.wanted == 1 else f" (it takes {limit.wanted:g})"
    return (
        f"{limit.name.upper()}: {format_amount(used)} of {limit.most:g}{takes}, held by {', '.join(names) or 'no job'}"
    )


class DelayedStart(NamedTuple):
    """Why the access point starts no job: the setting or job attribute, the end of the delay in microseconds, and
    whether claims are kept until then."""

    setting: str
    at: int
    has_idle_claims: bool


class NextCycle:
    """Computes the cycles that the negotiators would hold at the end of a log."""

    def __init__(self, read_events: Callable[[], Iterable[e.LoggedEvent]]) -> None:
        self._read = read_events
        self._held: list[e.CycleHeld] | None = None

    @cached_property
    def _state(self) -> State:
        state = fold(self._read())
        state.rejections, state.further_rejections = {}, {}  # otherwise the cycles would omit known reasons
        return state

    @cached_property
    def submissions(self) -> Rejections:
        """The submissions and edits of all jobs, because a cycle can name any job of an autocluster."""
        submissions = Rejections()
        for position, event in self._read():
            if isinstance(event, e.ClusterSubmitted | e.JobsEdited):
                submissions.fold_event(position, event)
        return submissions

    def limits(self, reason: e.Unmatched, position: int | None = None) -> list[str]:
        """Return the use and holders of each limit that was reached, at a position of the log (default: its end)."""
        if not reason.reached:
            return []
        if position is None:
            return _limits_in_words(reason, self._state)
        return _limits_in_words(reason, fold(takewhile(lambda event: event[0] <= position, self._read())))

    def standings(self, job: e.Ad, offset: int) -> Counter[str]:
        """Return how many slots have each standing to a job now."""
        return standings(self._state, job, cycle_context(self._state, self._state.at, offset))

    def is_about_matches(self, reason: e.Unmatched, cycle: e.CycleHeld) -> bool:
        """Return True if the limits of a rejection are only reached by the matches of the same cycle, which would be
        held now."""
        if reason.limit and reason.limit != CONCURRENCY:
            clusters = {JobId.parse(match.job).cluster for match in cycle.matches}
            submitters = {self._state.clusters[cluster].submitter for cluster in clusters}
            return bool(submitters) and (reason.limit in _OF_SEVERAL_SUBMITTERS or reason.submitter in submitters)
        used = {limit.name: sum(units for _, units in _holders(self._state, limit.name)) for limit in reason.reached}
        room = [used[limit.name] / PARTS_PER_UNIT + limit.wanted <= limit.most for limit in reason.reached]
        return bool(room) and all(room)

    def delayed_start(self) -> DelayedStart | None:
        """Return why no job may start on a slot now, or None if jobs may start."""
        state = self._state
        if state.next_start <= state.at:
            return None
        return DelayedStart(state.start_limit, state.next_start, bool(state.kept_claims))

    def slots(self) -> list[tuple[str, e.Ad]]:
        return undivided_slots(self._state)

    def cycles(self, offset: int) -> list[e.CycleHeld]:
        """Return the cycles that the negotiators would hold now, without those for which no job waits."""
        if self._held is None:
            names = ("" if name == NEGOTIATOR else name for name in negotiator_names(self._state.settings))
            cycles = (self._hold(self._state, offset, name) for name in names)
            self._held = [cycle for cycle in cycles if cycle is not None]
        return self._held

    def retiring_slot(self, last_cycle: e.CycleHeld, job: str) -> tuple[str, int] | None:
        """Return the slot that a job would get if NEGOTIATOR_CONSIDER_EARLY_PREEMPTION were true, and the end
        (microseconds) of the retirement time of the job there, or None if there is no such slot."""
        state = self._state
        slots = PublishedSlots(state, Caches(), state.at, cycle_context(state, state.at, last_cycle.offset))
        retiring = {slot.name: until for slot in state.slots.values() if (until := slots.remaining_retirement(slot))}
        if not retiring:
            return None
        earlier_state = copy(state)
        earlier_state.settings = {**state.settings, "NEGOTIATOR_CONSIDER_EARLY_PREEMPTION": "true"}
        cycle = self._hold(earlier_state, last_cycle.offset, last_cycle.negotiator)
        matches = [match for match in (cycle.matches if cycle else ()) if match.job == job]
        names = [slot for match in matches for slot in (match.slot, *match.preempts)]
        return next(((name, state.at + retiring[name]) for name in names if name in retiring), None)

    def _hold(self, state: State, offset: int, negotiator: str) -> e.CycleHeld | None:
        return repeat_cycle(state, state.at, "", offset, negotiator).held


_OF_SEVERAL_SUBMITTERS = ("quota", "running")  #: the limits that jobs of other submitters help to reach
CONCURRENCY = "concurrency"  #: the kind of a rejection for a concurrency limit (``Unmatched.limit``)
ROOM = "a slot is free; the next cycle decides"
PREEMPTION = "the next cycle preempts other jobs for it"
UNDECIDED = "the next cycle decides"
OTHERS = "other jobs come before it in the next cycle"


_NO_SLOT = ("refused", "nothing")  #: the kinds of rejections of which no slot in use is the cause


class Rejection(NamedTuple):
    """A cycle's rejection of a job: a sentence about the cycle, and the reasons then (empty: the same as now) and
    now."""

    cycle: Sentence
    then: str
    now: str
    reason: e.Unmatched | None

    @property
    def kind(self) -> str:
        """The kind of the current reason (``obstacle_kind``); empty if there is none."""
        return "" if self.reason is None else obstacle_kind(self.reason)

    @property
    def is_over(self) -> bool:
        """Whether the reason of that cycle no longer applies."""
        return self.then != ""


@define
class Rejections:
    """The last rejection of each autocluster by its first job, and the events with these jobs' ads."""

    last: tuple[int, int] | None = None  #: the last cycle: its position and its instant
    _known: dict[str, tuple[int, e.CycleHeld, e.Unmatched]] = field(factory=dict)
    _submitted: dict[int, e.ClusterSubmitted] = field(factory=dict)
    _edited: dict[int, list[e.JobsEdited]] = field(factory=dict)

    def fold_event(self, position: int, event: e.Event) -> None:
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

    def current_rejection(
        self, job: str, ad: e.Ad, since: int, zone: tzinfo, next_cycle: NextCycle, settings: Mapping[str, str]
    ) -> Rejection | None:
        """Return the last rejection of the autocluster of a job with this ad, or None if there is none. `since` is when
        the job began to wait."""
        last_rejection = self.last_rejection(job, ad)
        if last_rejection is None:
            return None
        position, event, reason = last_rejection
        reason = _of_the_only_submitter(event, reason)
        is_about_limit = reason.reached and reason.limit in ("", CONCURRENCY)
        facts = {
            "when": instant(event.at, zone),
            "it": f"job {reason.job}, which is like it" if event.at < since and reason.job != job else "it",
            "negotiator": negotiator_shown(settings, event.negotiator),
            "counts": slot_counts(reason),
            "kind": CONCURRENCY if is_about_limit else reason.limit,
            "limit": limits_reached(reason),
            "denied": preemption_refusals(reason),
            "unmet": unmet_conditions(reason, ad),
            "conditions": conditions_left(reason, ad),
        }
        cycle = Sentence(event.at, position, "refused", facts, event.cause, event.stimulus)
        text, now = self.reason_now(job, ad, next_cycle)
        if now is not None and obstacle_kind(now) == obstacle_kind(reason):
            return Rejection(cycle, "", text, now)
        if now is not None and is_same(reason, now):
            return Rejection(cycle, "", short_reason(reason, ()), reason)
        return Rejection(cycle, short_reason(reason, next_cycle.limits(reason, position)), text, now)

    def reason_now(self, job: str, ad: e.Ad, next_cycle: NextCycle) -> tuple[str, e.Unmatched | None]:
        """Return why a rejected job is not matched now, as text and as a cycle reports it (None: no rejection)."""
        last_rejection = self.last_rejection(job, ad)
        cycles = [] if last_rejection is None else next_cycle.cycles(last_rejection[1].offset)
        for match in (match for cycle in cycles for match in cycle.matches if match.job == job):
            return PREEMPTION if match.reason or match.preempts else ROOM, None
        reasons = [(reason, cycle) for cycle in cycles for reason in self._reasons_in(cycle, job, ad, next_cycle)]
        if last_rejection is None or not reasons:
            return OTHERS if cycles else UNDECIDED, None
        reason, cycle = min(reasons, key=lambda found: _place(found[0]))
        if next_cycle.is_about_matches(reason, cycle):
            return OTHERS, None
        if _place(reason) == 0:
            return short_reason(reason, next_cycle.limits(reason)), reason
        counts = next_cycle.standings(ad, last_rejection[1].offset)
        if counts[FREE]:
            return OTHERS, None
        kind = obstacle_kind(reason)
        if counts and (kind in _NO_SLOT or (kind == "taken" and not counts[USED])):
            return f"no slot is available for it: {standings_text(counts)}", reason
        return short_reason(reason, ()), reason

    def _reasons_in(self, cycle: e.CycleHeld, job: str, ad: e.Ad, next_cycle: NextCycle) -> Iterator[e.Unmatched]:
        refusals = evolve(next_cycle.submissions, known={})
        refusals.fold_event(0, cycle)
        refusal = refusals.last_rejection(job, ad)
        if refusal is not None:
            yield _of_the_only_submitter(cycle, refusal[2])

    def last_rejection(self, job: str, ad: e.Ad) -> tuple[int, e.CycleHeld, e.Unmatched] | None:
        """Return the last rejection of the autocluster of a job with this ad: the position, the cycle, and the
        reason."""
        significant_values, submission = _significant(ad), self._submitted.get(JobId.parse(job).cluster)
        submitter_key = ("", submission.submitter if submission is not None else "")
        refusals = [
            known_refusal
            for known_refusal in self._known.values()
            if known_refusal[2].job == job
            or (
                known_refusal[2].submitter in submitter_key
                and self._is_same_reason(known_refusal[2], significant_values)
            )
        ]
        return max(refusals, key=lambda known: known[0], default=None)

    def _is_same_reason(self, reason: e.Unmatched, significant_values: dict[str, str]) -> bool:
        number, _, proc = reason.job.partition(".")
        submission = self._submitted.get(int(number)) if number.isdigit() and proc.isdigit() else None
        if submission is None or not 0 <= int(proc) < submission.count:
            return False
        other_ad = {**submission.ad, **Variants(submission.columns).of_proc(int(proc))}
        for edit in self._edited.get(submission.cluster, ()):
            if any(first <= int(proc) <= last for first, last in edit.procs):
                other_ad |= edit.changes
        return _texts(other_ad, significant_values) == significant_values


def _place(reason: e.Unmatched) -> int:
    """Return the place of a reason among several negotiators' reasons: first the limits, then slots in use."""
    return 0 if reason.limit not in ("", "slots") or reason.reached else 1 + (obstacle_kind(reason) in _NO_SLOT)


def _of_the_only_submitter(event: e.CycleHeld, reason: e.Unmatched) -> e.Unmatched:
    """Return a reason, with its limit replaced if the cycle had only one submitter, whose fair share is all slots."""
    is_alone = event.statistics.get("ActiveSubmitterCount") == 1
    if is_alone and slots_meeting_requirements(reason) <= reason.refused_by_slot + reason.taken:
        return replace(reason, limit=LIMIT_OF_ONE.get(reason.limit, reason.limit))
    return reason


def _texts(ad: e.Ad, names: dict[str, str]) -> dict[str, str]:
    lower = {name.lower(): text for name, text in ad.items()}
    return {name: lower.get(name, "") for name in names}


def _significant(ad: e.Ad) -> dict[str, str]:
    """Return the job attributes on which a match depends: the standard ones, and what Requirements reads."""
    names = [name.lower() for name in ALWAYS_SIGNIFICANT]
    names += [name.rpartition(".")[2].lower() for name in own_names_read(ad.get("Requirements", "true"))]
    return _texts(ad, dict.fromkeys(names, ""))


def fits_none(reason: e.Unmatched) -> bool:
    """Return True if there is no slot, free or not, that the job accepts and that accepts the job."""
    return slots_meeting_requirements(reason) <= reason.refused_by_slot


def evidence_of(notes: list[e.EvaluationRecorded], ad: e.Ad) -> e.EvaluationRecorded | None:
    """Return the evaluation of the job's Requirements in a cycle's evidence, with the job's values if it has them."""
    text = ad.get("Requirements", "")
    try:
        text = unparse(parse(text))
    except ClassAdSyntaxError:
        return None
    notes_of_expression = [note for note in notes if note.expression == text]
    for note in notes_of_expression:
        my_attributes = {name[3:].lower(): value for name, value in note.read.items() if name.startswith("MY.")}
        if _texts(ad, my_attributes) == my_attributes:
            return note
    return notes_of_expression[0] if len(notes_of_expression) == 1 else None
