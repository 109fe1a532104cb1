"""Decide a recording's cycles again, and compare the matches with the real negotiator's. ``recording`` is the data:
machines, queue, cycles, the accountant's log, samples; ``trace_cycles`` reads it from files. ``visibility`` finds which
changes of slots a cycle had seen. ``accountant`` and ``account_walk`` keep the accounts from cycle to cycle.
``redecide`` runs our cycle on the real pool's state; ``report`` prints the result.

 The comparison covers, in every cycle, which submitters got slots and how many, and the slots if the ranks decide them.
Submitters of equal priority take turns in the order of the negotiator's log. The rules of ``REASONS`` explain a
difference, in order, by something that is not recorded or that the real negotiator leaves to chance. Each rule requires
a proof: that the cycle comes out the same under the rule's assumption, or messages of the logs; ``evidence`` requires a
record of every match and rejection that would be excused. Each difference is reported with its reason; one without a
reason is a failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from attrs import define, evolve, field, frozen
from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.domain.negotiator.accounting import accountant_settings, floor, priority_factor
from poolbook.domain.startd.slot_resources import has_consumption_policy

from ..accounting.priorities import effective_priority
from .account_walk import AccountedCycle, AccountWalk
from .accountant import ComparedSample
from .evidence import Evidence
from .recording import NegotiatorRecording, RecordedCycle, RecordedMatch, clock
from .redecide import DecidedCycle, decide_again, ranks
from .visibility import DELAYS, OLDEST, SECOND

DIGITS: Final = 5e-5  #: numbers that agree to four digits have a smaller relative error
NEARLY: Final = 1e-9  #: the factor by which a priority is moved to put it just before or after another
CUT: Final = "the negotiator's log of them is incomplete"
ACCOUNTS: Final = "the accounts of the waiting submitters are not known"
NO_BEGINNING: Final = "the negotiator's log lacks their beginning, or they were aborted"


class ComparedMatch(NamedTuple):
    """A match: the submitter's ``number``-th in its cycle, the slot, and the submitter that it preempts."""

    submitter: str
    number: int
    slot: str
    preempting: str

    def __str__(self) -> str:
        preempted = f" from {short(self.preempting)}" if self.preempting else ""
        return f"{short(self.submitter)} {short(self.slot)}{preempted}"


def short(name: str) -> str:
    """Return a slot's or submitter's name without its machine or domain."""
    return name.partition("@")[0]


@frozen
class CycleDifference:
    """The matches of a cycle that only the real negotiator made, and the ones only ours made. ``reason`` is one of
    ``REASONS``, or empty; ``numbers``: every submitter got as many slots. ``against``: other records that contradict
    the real matches, which nothing excuses."""

    at: int
    real: tuple[ComparedMatch, ...]
    ours: tuple[ComparedMatch, ...]
    numbers: bool
    reason: str
    against: tuple[str, ...] = ()

    def __str__(self) -> str:
        real, ours = ("; ".join(map(str, matches)) or "nothing" for matches in (self.real, self.ours))
        against = "".join(f"; {contradiction}" for contradiction in self.against)
        return f"{clock(self.at)}: really {real}; here {ours}{against}"


@frozen
class Report:
    """The result of a recording. ``left_out`` counts cycles by the reason for not comparing them. ``samples`` and
    ``named`` are compared priorities, from condor_userprio and the negotiator's log. Of the ``matches`` of the compared
    cycles, ours agree in the submitter and its number of slots (``users``), in the slot (``slots``, in order), and in
    the job's cluster (``jobs``). ``open`` were not compared by slot, because only chance decides. ``started`` counts
    samples from which an unknown account was restored."""

    name: str
    cycles: int
    left_out: Mapping[str, int]
    samples: tuple[ComparedSample, ...]
    named: tuple[ComparedSample, ...]
    started: int
    matches: int
    users: int
    slots: int
    jobs: int
    open: int
    differences: tuple[CycleDifference, ...]
    submissions: tuple[str, ...]

    @property
    def share(self) -> float:
        """The share of the matches that was compared by slot."""
        return 1.0 - self.open / self.matches if self.matches else 1.0

    @property
    def unexplained(self) -> tuple[CycleDifference, ...]:
        return tuple(difference for difference in self.differences if not difference.reason)

    @property
    def agrees(self) -> bool:
        """True if the priorities agree to four digits, and no match differs without a reason."""
        return not self.unexplained and all(off(samples) < DIGITS for samples in (self.samples, self.named))


def off(samples: tuple[ComparedSample, ...]) -> float:
    """Return the greatest relative error of the compared priorities."""
    return max((sample.off for sample in samples if sample.why is None), default=0.0)


@frozen
class _DifferingCycle:
    """A differing cycle, with the matches that only one of the two has."""

    record: NegotiatorRecording
    moment: AccountedCycle
    cycle: RecordedCycle
    found: DecidedCycle
    real: Counter[ComparedMatch]
    ours: Counter[ComparedMatch]

    @property
    def less(self) -> Counter[str]:
        """The submitters who got less than in our cycle, and how much less."""
        return _numbers(self.ours) - _numbers(self.real)

    @property
    def slots(self) -> set[str]:
        return {match.slot for match in (*self.real, *self.ours)}

    def again(
        self,
        count: int,
        now: int,
        older: int = 0,
        clusters: Collection[int] | None = None,
        moment: AccountedCycle | None = None,
    ) -> bool:
        """Return True if our cycle equals the real one under another assumption (``decide_again``), with partitionable
        slots matched as often as there are jobs, or once."""
        for matched_once in (False, True):
            decided = decide_again(
                self.record, moment or self.moment, self.cycle, count, now, older, clusters, matched_once
            )
            real, ours = _matches(self.cycle, decided)
            if real == ours or _alike(evolve(self, found=decided, real=real - ours, ours=ours - real)):
                return True
        return False


class Reason(NamedTuple):
    """Why the two may differ. ``open``: slots cannot be compared. ``refused``: the logs must show a rejection for each
    submitter who got less than in our cycle."""

    why: str
    holds: Callable[[_DifferingCycle], bool]
    open: bool = False
    refused: bool = True


# The reasons


def _alike(case: _DifferingCycle) -> bool:
    """Return True if every submitter gets as many slots, and the ranks value each slot like its counterpart."""
    jobs = {recorded.submitter: recorded.job for recorded in case.cycle.matches}
    ours = {(match.submitter, match.number): match for match in case.ours}
    for real_match in case.real:
        counterpart = ours.pop((real_match.submitter, real_match.number), None)
        if counterpart is None or counterpart.preempting != real_match.preempting:
            return False
        values = [ranks(case.found, jobs[real_match.submitter], slot) for slot in (real_match.slot, counterpart.slot)]
        if values[0] is None or values[0] != values[1]:
            return False
    return not ours


def _unseen(case: _DifferingCycle) -> bool:
    """Return True if our cycle equals the real one with other changes seen: of all slots, or only of partitionable
    ones, whose ads arrive separately from those of their dynamic slots."""
    at, visible = case.moment.at, case.moment.visible
    return any(case.again(count, at) for count in visible.others) or any(
        case.again(visible.count, at, older) for older in _cuts(case)
    )


def _cuts(case: _DifferingCycle) -> Iterator[int]:
    """Yield the numbers of events before a change of a partitionable slot's remaining resources, in the seconds in
    question."""
    at, kinds = case.moment.at, {name: slot.kind for name, slot in case.found.state.slots.items()}
    for place, event in enumerate(case.record.pool):
        is_near = at - max(DELAYS) * SECOND <= event.at <= at
        if is_near and isinstance(event, e.SlotAdChanged) and kinds.get(event.slot) == "partitionable":
            yield place


def _aged(case: _DifferingCycle) -> bool:
    at = case.moment.at
    return any(case.again(case.moment.visible.count, at - seconds * SECOND) for seconds in range(1, OLDEST + 1))


def _cluster(job: str) -> int:
    return int(job.partition(".")[0])


def _unoffered(case: _DifferingCycle) -> bool:
    """Return True if our cycle equals the real one without the clusters of which no job was requested. When a limit has
    been reached, not every offered job is requested."""
    requested = {_cluster(job) for job in case.cycle.requested}
    matched = {_cluster(match.job) for match in case.found.matches if match.slot in case.slots}
    if not requested or matched <= requested:
        return False
    reasons = [reason.lower() for user in case.less for reason in case.cycle.refused.get(user, ())]
    if any("limit" in reason or "skipped" in reason for reason in reasons):
        return False
    return case.again(case.moment.visible.count, case.moment.at, clusters=requested)


def _shared(case: _DifferingCycle) -> bool:
    """Return True if ours only matched more of partitionable slots that the real cycle also matched, and that have no
    consumption policy: with such a policy it matches a slot as often as its resources suffice. Also if our cycle equals
    the real one when it matches those slots once."""
    match_counts = Counter(match_counts.slot for match_counts in case.cycle.matches)
    partitionable = {
        name
        for name, slot in case.found.state.slots.items()
        if slot.kind == "partitionable" and not has_consumption_policy(slot.ad)
    }
    only_more = not case.real and all(match.slot in partitionable and match_counts[match.slot] for match in case.ours)
    return only_more or (bool(partitionable) and case.again(case.moment.visible.count, case.moment.at))


def _listed(case: _DifferingCycle) -> bool:
    """Return True if only preemptions differ, of submitters that got a slot earlier in the cycle. After preempting by
    share the real one preempts more, after a slot's RANK less."""
    match_counts = Counter(match_counts.submitter for match_counts in case.cycle.matches)
    real_counts = _numbers(case.real)
    return all(
        match.preempting and match_counts[match.submitter] > real_counts[match.submitter]
        for match in (*case.real, *case.ours)
    )


def _floors(case: _DifferingCycle) -> bool:
    """Return True if only the real one matches, for submitters below their floor."""
    submitters = [case.found.state.submitters.get(match.submitter) for match in case.real]
    return bool(submitters) and all(
        submitter is not None and submitter.weighted_in_use < 1000 * floor(submitter, case.moment.at)
        for submitter in submitters
    )


def _unsubmitted(case: _DifferingCycle) -> bool:
    """Return True if an offered job is of an unrecorded submission."""
    cluster_names = {str(submission.event.cluster) for submission in case.record.queue}
    return any(job.partition(".")[0] not in cluster_names for job in case.cycle.requested)


def _deferred(case: _DifferingCycle) -> bool:
    """Return True if a job that only one of the two matched is deferred."""
    matches = [match for match in (*case.cycle.matches, *case.found.matches) if match.slot in case.slots]
    clusters = (case.found.state.clusters.get(_cluster(match.job)) for match in matches)
    known_clusters = (match for match in clusters if match is not None)
    return any(name in match.ad or name in match.variants.names for match in known_clusters for name in _DEFERRALS)


_DEFERRALS: Final = ("DeferralTime", "CronMinute", "CronHour", "CronDayOfMonth", "CronMonth", "CronDayOfWeek")


def _uncertain(case: _DifferingCycle) -> bool:
    """Return True if our cycle equals the real one when a submitter whose priority is not known exactly is put just
    before or after another one."""
    moment, rules = case.moment, accountant_settings(case.found.state.settings)
    submitters_by_name = {name: case.found.state.submitters.get(name) for name in case.cycle.asked}
    submitters = {name: submitter for name, submitter in submitters_by_name.items() if submitter is not None}
    for user in submitters.keys() & moment.unknown.keys():
        for other in submitters.keys() - {user}:
            beside = effective_priority(submitters[other], rules, moment.at) / priority_factor(
                submitters[user], rules, moment.at
            )
            for nudge in (1 - NEARLY, 1 + NEARLY):
                changed = replace(moment.priorities, priorities={**moment.priorities.priorities, user: beside * nudge})
                other_way = evolve(moment, priorities=changed)
                if case.again(moment.visible.count, moment.at, moment=other_way):
                    return True
    return False


REASONS: Final[dict[str, Reason]] = {
    "unsubmitted": Reason("the records lack the submission of jobs that were offered to it", _unsubmitted),
    "unoffered": Reason("the access point did not offer some idle jobs", _unoffered, refused=False),
    "deferred": Reason("the real access point computes when a deferred job runs", _deferred),
    "shared": Reason("the real one matches a partitionable slot once in a cycle, and its users cut the rest", _shared),
    "alike": Reason("the ranks value the slots alike, and nothing determines which is first", _alike, open=True),
    "unseen": Reason("the records do not show which changes of that second, or the one before, it knew", _unseen),
    "aged": Reason(f"the real one decides by ads that are up to {OLDEST} seconds old, with the same result", _aged),
    "floors": Reason("below a floor, the real one counts only what is preempted against it", _floors),
    "listed": Reason("for similar jobs, the real one has other limits for the slots kept in its list", _listed),
    "uncertain": Reason("the priorities of the waiting submitters are not known exactly", _uncertain),
}
"""The explanations of differences, in the order in which they are tried."""


# -- Comparing


def compare_cycles(record: NegotiatorRecording) -> Report:
    """Decide a recording's cycles again, and compare."""
    accounts = AccountWalk(record)
    tally = _Tally(record, accounts)
    for moment in accounts.moments():
        tally.take(moment)
    if record.lost:
        tally.left_out[NO_BEGINNING] += record.lost
    counts = tally.counts
    return Report(
        name=record.name,
        cycles=counts["cycles"],
        left_out=dict(tally.left_out),
        samples=tuple(accounts.samples),
        named=tuple(accounts.named),
        started=len(accounts.started),
        matches=counts["matches"],
        users=counts["users"],
        slots=counts["slots"],
        jobs=counts["jobs"],
        open=counts["open"],
        differences=tuple(tally.differences),
        submissions=record.left_out,
    )


@define
class _Tally:
    record: NegotiatorRecording
    accounts: AccountWalk
    left_out: Counter[str] = field(factory=Counter)
    counts: Counter[str] = field(factory=Counter)
    differences: list[CycleDifference] = field(factory=list)
    evidence: Evidence = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.evidence = Evidence(self.record, self.accounts.visibility, self.accounts.costs.consuming)

    def take(self, moment: AccountedCycle) -> None:
        """Compare a cycle, or count why it is left out."""
        cycle = moment.cycle
        if cycle is None or not cycle.whole:
            self.left_out[CUT] += 1
        elif len(cycle.asked) > 1 and any(why.gone for why in map(moment.why, cycle.asked) if why is not None):
            self.left_out[ACCOUNTS] += 1
        else:
            self._compare(moment, cycle)

    def _compare(self, moment: AccountedCycle, cycle: RecordedCycle) -> None:
        decided = decide_again(self.record, moment, cycle, moment.visible.count, moment.at)
        real, ours = _matches(cycle, decided)
        self.counts["cycles"] += 1
        self.counts["matches"] += len(cycle.matches)
        self.counts["slots"] += (real & ours).total()
        self.counts["users"] += (_numbers(real) & _numbers(ours)).total()
        self.counts["jobs"] += (_jobs(cycle.matches) & _jobs(decided.matches)).total()
        against = self.evidence.against(cycle)
        if real != ours or against:
            self._differs(_DifferingCycle(self.record, moment, cycle, decided, real - ours, ours - real), against)

    def _differs(self, case: _DifferingCycle, against: tuple[str, ...]) -> None:
        name = "" if against else next((name for name, reason in REASONS.items() if reason.holds(case)), "")
        if name and (against := self._unproved(case, REASONS[name])):
            name = ""
        if name and REASONS[name].open:
            self.counts["open"] += case.real.total()
            self.counts["users"] += (_numbers(case.real) - _numbers(case.ours)).total()
        real, ours = (tuple(sorted(matches.elements())) for matches in (case.real, case.ours))
        same_numbers = _numbers(case.real) == _numbers(case.ours)
        self.differences.append(CycleDifference(case.moment.at, real, ours, same_numbers, name, against))

    def _unproved(self, case: _DifferingCycle, reason: Reason) -> tuple[str, ...]:
        """Return which records the excuse of a cycle lacks: of matches that only the real one made, and of its
        rejections of those who got less than in our cycle."""
        return (
            *self.evidence.missing(case.cycle, {match.slot for match in case.real}),
            *(self.evidence.unrefused(case.cycle, case.less) if reason.refused else ()),
        )


def _matches(cycle: RecordedCycle, decided: DecidedCycle) -> tuple[Counter[ComparedMatch], Counter[ComparedMatch]]:
    return Counter(_numbered(cycle.matches)), Counter(_numbered(decided.matches))


def _numbered(matches: Iterable[RecordedMatch]) -> Iterator[ComparedMatch]:
    counts: Counter[str] = Counter()
    for match in matches:
        counts[match.submitter] += 1
        yield ComparedMatch(match.submitter, counts[match.submitter], match.slot, match.preempting)


def _numbers(matches: Counter[ComparedMatch]) -> Counter[str]:
    """Count the slots of each submitter."""
    slot_counts: Counter[str] = Counter()
    for match, count in matches.items():
        slot_counts[match.submitter] += count
    return slot_counts


def _jobs(matches: Iterable[RecordedMatch]) -> Counter[tuple[str, str]]:
    """Count the matches by the job's cluster and the slot."""
    return Counter((match.job.partition(".")[0], match.slot) for match in matches)
