"""Decide a recording's cycles again, and compare the matches with the real negotiator's.

``recording`` is the data: machines, queue, cycles, the accountant's log, samples; ``trace_cycles`` reads it from files.
``visibility`` finds which changes of slots a cycle had seen. ``accountant`` and ``account_walk`` keep the accounts from
cycle to cycle. ``redecide`` holds our cycle on the real one's state of the pool; ``report`` prints the result.

Who got slots, and how many, is compared for every cycle; which slots, wherever the ranks decide. Submitters of equal
priority have their turns in the order in which the negotiator's log has them. The rules of
``REASONS`` explain a difference, in order, by something that is not recorded or that the real negotiator leaves to
chance. Each rule asks for a proof: that the cycle comes out the same under what it assumes, or words of the logs; and
``evidence`` for a record of every match and refusal that would be excused. Each difference is reported with its reason;
one without a reason is a failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from attrs import define, evolve, field, frozen
from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.domain.negotiator.accounting import effective, factor, floor, terms
from poolbook.domain.startd.slot_resources import consumes

from .account_walk import AccountedCycle, AccountWalk
from .accountant import ComparedSample
from .evidence import Evidence
from .recording import NegotiatorRecording, RecordedCycle, RecordedMatch, clock
from .redecide import DecidedCycle, decide_again, ranks
from .visibility import DELAYS, OLDEST, SECOND

DIGITS: Final = 5e-5  #: numbers that agree to four digits have a smaller relative error
NEARLY: Final = 1e-9  #: how far from another priority one is put that is to be right before or behind it
CUT: Final = "the negotiator's log of them is not whole"
ACCOUNTS: Final = "it is not known where the accounts of those who waited stood"
NO_BEGINNING: Final = "the negotiator's log has no beginning of them, or they were given up"


class ComparedMatch(NamedTuple):
    """A match: the submitter's ``number``-th in its cycle, the slot, and the submitter that it preempts."""

    submitter: str
    number: int
    slot: str
    preempting: str

    def __str__(self) -> str:
        gone = f" from {short(self.preempting)}" if self.preempting else ""
        return f"{short(self.submitter)} {short(self.slot)}{gone}"


def short(name: str) -> str:
    """Return a slot's or submitter's name without its machine or domain."""
    return name.partition("@")[0]


@frozen
class CycleDifference:
    """The matches of a cycle that only the real negotiator made, and those only ours made. ``reason`` is one of
    ``REASONS``, or empty; ``numbers``: everybody got as many slots. ``against``: what
    other records say against the real ones, which nothing excuses."""

    at: int
    real: tuple[ComparedMatch, ...]
    ours: tuple[ComparedMatch, ...]
    numbers: bool
    reason: str
    against: tuple[str, ...] = ()

    def __str__(self) -> str:
        left, right = ("; ".join(map(str, some)) or "nothing" for some in (self.real, self.ours))
        against = "".join(f"; {words}" for words in self.against)
        return f"{clock(self.at)}: really {left}; here {right}{against}"


@frozen
class Report:
    """The result of a recording. ``left_out`` counts cycles by the reason for not comparing them. ``samples`` and
    ``named`` are compared priorities, from condor_userprio and the negotiator's log. Of the ``matches`` of the compared
    cycles, ours agree in the submitter and its number of slots (``users``), in the slot
    (``slots``, in order), and in the job's cluster (``jobs``). ``open`` were not compared by slot, since only chance
    decides. ``started`` counts samples from which a lost account went on."""

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
        return tuple(one for one in self.differences if not one.reason)

    @property
    def agrees(self) -> bool:
        """True if the priorities agree to four digits, and no match differs without a reason."""
        return not self.unexplained and all(off(some) < DIGITS for some in (self.samples, self.named))


def off(some: tuple[ComparedSample, ...]) -> float:
    """Return the greatest relative error of the compared priorities."""
    return max((one.off for one in some if one.why is None), default=0.0)


@frozen
class _DifferingCycle:
    """A cycle that differs, with the matches that only one of the two has."""

    record: NegotiatorRecording
    moment: AccountedCycle
    cycle: RecordedCycle
    found: DecidedCycle
    real: Counter[ComparedMatch]
    ours: Counter[ComparedMatch]

    @property
    def less(self) -> Counter[str]:
        """Who got less than here, and how much."""
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
        """Tell whether ours equals the real cycle under another assumption (``decide_again``), with partitionable slots
        matched as often as there are jobs or once."""
        for once in (False, True):
            found = decide_again(self.record, moment or self.moment, self.cycle, count, now, older, clusters, once)
            real, ours = _matches(self.cycle, found)
            if real == ours or _alike(evolve(self, found=found, real=real - ours, ours=ours - real)):
                return True
        return False


class Reason(NamedTuple):
    """Why the two may differ. ``open``: slots cannot be compared. ``refused``: who got less than here was refused
    something, which the logs have to tell."""

    why: str
    holds: Callable[[_DifferingCycle], bool]
    open: bool = False
    refused: bool = True


# The reasons


def _alike(case: _DifferingCycle) -> bool:
    """Tell whether everybody gets as many slots, and the ranks value each like its counterpart."""
    jobs = {told.submitter: told.job for told in case.cycle.matches}
    ours = {(match.submitter, match.number): match for match in case.ours}
    for real in case.real:
        mine = ours.pop((real.submitter, real.number), None)
        if mine is None or mine.preempting != real.preempting:
            return False
        values = [ranks(case.found, jobs[real.submitter], slot) for slot in (real.slot, mine.slot)]
        if values[0] is None or values[0] != values[1]:
            return False
    return not ours


def _unseen(case: _DifferingCycle) -> bool:
    """Tell whether ours equals it with other changes seen: of all slots, or of partitionable ones alone, whose ads come
    apart from those of the dynamic slots cut from them."""
    at, seen = case.moment.at, case.moment.visible
    return any(case.again(count, at) for count in seen.others) or any(
        case.again(seen.count, at, older) for older in _cuts(case)
    )


def _cuts(case: _DifferingCycle) -> Iterator[int]:
    """Yield the numbers of events before what was left of a partitionable slot changed, in the seconds in question."""
    at, kinds = case.moment.at, {name: slot.kind for name, slot in case.found.state.slots.items()}
    for place, event in enumerate(case.record.pool):
        near = at - max(DELAYS) * SECOND <= event.at <= at
        if near and isinstance(event, e.SlotAdChanged) and kinds.get(event.slot) == "partitionable":
            yield place


def _aged(case: _DifferingCycle) -> bool:
    at = case.moment.at
    return any(case.again(case.moment.visible.count, at - seconds * SECOND) for seconds in range(1, OLDEST + 1))


def _cluster(job: str) -> int:
    return int(job.partition(".")[0])


def _unoffered(case: _DifferingCycle) -> bool:
    """Tell whether ours equals it without the clusters of which no job was requested. Behind a limit that somebody has
    reached, not all is requested that was offered."""
    requested = {_cluster(job) for job in case.cycle.requested}
    matched = {_cluster(one.job) for one in case.found.matches if one.slot in case.slots}
    if not requested or matched <= requested:
        return False
    told = [words.lower() for user in case.less for words in case.cycle.refused.get(user, ())]
    if any("limit" in words or "skipped" in words for words in told):
        return False
    return case.again(case.moment.visible.count, case.moment.at, clusters=requested)


def _shared(case: _DifferingCycle) -> bool:
    """Tell whether ours matched more only of partitionable slots that the real one matched in this cycle, too, and that
    have no consumption policy: by such a policy it matches a slot as often as its resources suffice. Or ours equals it
    if it matches those once, too."""
    told = Counter(told.slot for told in case.cycle.matches)
    whole = {
        name for name, one in case.found.state.slots.items() if one.kind == "partitionable" and not consumes(one.ad)
    }
    more = not case.real and all(m.slot in whole and told[m.slot] for m in case.ours)
    return more or (bool(whole) and case.again(case.moment.visible.count, case.moment.at))


def _listed(case: _DifferingCycle) -> bool:
    """Tell whether only preemptions differ, of submitters that got a slot earlier in the cycle. After preempting by
    share the real one preempts more, after a slot's RANK less."""
    told = Counter(told.submitter for told in case.cycle.matches)
    behind = _numbers(case.real)
    return all(m.preempting and told[m.submitter] > behind[m.submitter] for m in (*case.real, *case.ours))


def _floors(case: _DifferingCycle) -> bool:
    """Tell whether only the real one matches, for submitters below their floor."""
    known = [case.found.state.submitters.get(match.submitter) for match in case.real]
    return bool(known) and all(
        one is not None and one.weighted_in_use < 1000 * floor(one, case.moment.at) for one in known
    )


def _unsubmitted(case: _DifferingCycle) -> bool:
    """Tell whether a job that was offered is of an unrecorded submission."""
    known = {str(one.event.cluster) for one in case.record.queue}
    return any(job.partition(".")[0] not in known for job in case.cycle.requested)


def _deferred(case: _DifferingCycle) -> bool:
    """Tell whether one of the jobs that only one of the two matched is deferred."""
    matches = [one for one in (*case.cycle.matches, *case.found.matches) if one.slot in case.slots]
    clusters = (case.found.state.clusters.get(_cluster(one.job)) for one in matches)
    known = (one for one in clusters if one is not None)
    return any(name in one.ad or name in one.variants.names for one in known for name in _DEFERRALS)


_DEFERRALS: Final = ("DeferralTime", "CronMinute", "CronHour", "CronDayOfMonth", "CronMonth", "CronDayOfWeek")


def _uncertain(case: _DifferingCycle) -> bool:
    """Tell whether ours equals it if somebody whose priority is not known exactly goes right before or behind another
    one."""
    moment, rules = case.moment, terms(case.found.state.settings)
    known = {name: case.found.state.submitters.get(name) for name in case.cycle.asked}
    submitters = {name: one for name, one in known.items() if one is not None}
    for user in submitters.keys() & moment.unknown.keys():
        for other in submitters.keys() - {user}:
            beside = effective(submitters[other], rules, moment.at) / factor(submitters[user], rules, moment.at)
            for near in (1 - NEARLY, 1 + NEARLY):
                changed = replace(moment.priorities, priorities={**moment.priorities.priorities, user: beside * near})
                other_way = evolve(moment, priorities=changed)
                if case.again(moment.visible.count, moment.at, moment=other_way):
                    return True
    return False


REASONS: Final[dict[str, Reason]] = {
    "unsubmitted": Reason("the records do not tell of the submission of jobs that were offered to it", _unsubmitted),
    "unoffered": Reason("the access point did not offer some jobs that waited", _unoffered, refused=False),
    "deferred": Reason("when a deferred job is to run, the real access point computes", _deferred),
    "shared": Reason("the real one matches a partitionable slot once in a cycle, and its users cut the rest", _shared),
    "alike": Reason("the ranks value the slots alike, and nothing says which goes first", _alike, open=True),
    "unseen": Reason("the records do not show which changes of that second, or the one before, it knew", _unseen),
    "aged": Reason(f"the real one decides by ads that are up to {OLDEST} seconds old: so it was as of then", _aged),
    "floors": Reason("below a floor, the real one counts only what is preempted against it", _floors),
    "listed": Reason("for jobs that are alike, the real one has other limits for what it kept in its list", _listed),
    "uncertain": Reason("the priorities of those who waited are not known exactly", _uncertain),
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
        found = decide_again(self.record, moment, cycle, moment.visible.count, moment.at)
        real, ours = _matches(cycle, found)
        self.counts["cycles"] += 1
        self.counts["matches"] += len(cycle.matches)
        self.counts["slots"] += (real & ours).total()
        self.counts["users"] += (_numbers(real) & _numbers(ours)).total()
        self.counts["jobs"] += (_jobs(cycle.matches) & _jobs(found.matches)).total()
        against = self.evidence.against(cycle)
        if real != ours or against:
            self._differs(_DifferingCycle(self.record, moment, cycle, found, real - ours, ours - real), against)

    def _differs(self, case: _DifferingCycle, against: tuple[str, ...]) -> None:
        name = "" if against else next((name for name, reason in REASONS.items() if reason.holds(case)), "")
        if name and (against := self._unproved(case, REASONS[name])):
            name = ""
        if name and REASONS[name].open:
            self.counts["open"] += case.real.total()
            self.counts["users"] += (_numbers(case.real) - _numbers(case.ours)).total()
        left, right = (tuple(sorted(some.elements())) for some in (case.real, case.ours))
        numbers = _numbers(case.real) == _numbers(case.ours)
        self.differences.append(CycleDifference(case.moment.at, left, right, numbers, name, against))

    def _unproved(self, case: _DifferingCycle, reason: Reason) -> tuple[str, ...]:
        """Return which records the excuse of a cycle lacks: of what only the real one matched, and of what it refused
        to those who got less than here."""
        return (
            *self.evidence.missing(case.cycle, {match.slot for match in case.real}),
            *(self.evidence.unrefused(case.cycle, case.less) if reason.refused else ()),
        )


def _matches(cycle: RecordedCycle, found: DecidedCycle) -> tuple[Counter[ComparedMatch], Counter[ComparedMatch]]:
    return Counter(_numbered(cycle.matches)), Counter(_numbered(found.matches))


def _numbered(matches: Iterable[RecordedMatch]) -> Iterator[ComparedMatch]:
    counts: Counter[str] = Counter()
    for one in matches:
        counts[one.submitter] += 1
        yield ComparedMatch(one.submitter, counts[one.submitter], one.slot, one.preempting)


def _numbers(matches: Counter[ComparedMatch]) -> Counter[str]:
    """Count the slots of each submitter."""
    counted: Counter[str] = Counter()
    for match, count in matches.items():
        counted[match.submitter] += count
    return counted


def _jobs(matches: Iterable[RecordedMatch]) -> Counter[tuple[str, str]]:
    """Count the matches by the job's cluster and the slot."""
    return Counter((one.job.partition(".")[0], one.slot) for one in matches)
