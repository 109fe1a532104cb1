"""Find what a recording's other records say against the matches that the negotiator's log tells of a cycle.

The queue knows whose a job is and whether it waited, the accountant's log for whom a slot was counted, and the StartLog
who claimed it. None of them is asked when a cycle is decided again: so each is evidence of its own. A cycle that one of
them contradicts differs, whatever could be said to excuse it.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence

from attrs import define, field

from poolbook.domain import events as e
from poolbook.replay.narration.formatting import counted as words

from .recording import NegotiatorRecording, RecordedAccounting, RecordedCycle, RecordedMatch, RecordedSubmission, clock
from .redecide import parent, status
from .visibility import OLDEST, SECOND, Visibility

USABLE = 120  #: seconds for which a match may be used: the default of MATCH_TIMEOUT
LEFTOVERS = 10  #: seconds within which a schedd cuts further slots from a partitionable one that was matched
PROMPT = 2  #: seconds within which the StartLog tells of a claim that a cycle has made possible


@define
class Evidence:
    """What the records say besides the negotiator's log. ``consuming`` are the slots with a consumption policy."""

    record: NegotiatorRecording
    visibility: Visibility
    consuming: Collection[str]
    submissions: Mapping[int, RecordedSubmission] = field(init=False)
    claims: Mapping[tuple[str, str], Sequence[int]] = field(init=False)  #: slot, submitter -> when it was claimed
    reevaluated: Collection[str] = field(init=False)
    unmatched: Mapping[int, Sequence[str]] = field(init=False)  #: the cycle -> the claims that nothing had matched

    def __attrs_post_init__(self) -> None:
        self.submissions = {one.event.cluster: one for one in self.record.queue}
        found: dict[int, list[str]] = defaultdict(list)
        for at, sentence in _unmatched(self.record, self.submissions):
            found[at].append(sentence)
        self.unmatched = found
        made = (event for event in self.record.pool if isinstance(event, e.SlotCreated))
        self.reevaluated = {event.slot for event in made if "WantAdRevaluate" in event.ad}
        claims: dict[tuple[str, str], list[int]] = defaultdict(list)
        for event in self.record.pool:
            if isinstance(event, e.ClaimMade | e.ClaimQueued):
                claims[parent(event.slot), event.submitter].append(event.at)
        self.claims = claims

    def against(self, cycle: RecordedCycle) -> tuple[str, ...]:
        """Return what is said against a cycle's matches, as sentences."""
        found = dict.fromkeys(cycle.doubts)
        for told in cycle.matches:
            found |= dict.fromkeys([*self._queue(told, cycle), *self._accountant(told, cycle)])
        return (*found, *self._twice(cycle), *self._counted(cycle), *self.unmatched.get(cycle.at, ()))

    def _twice(self, cycle: RecordedCycle) -> Iterator[str]:
        """Yield the slots that were matched again. A cycle is done with a slot that it has matched, unless a
        consumption policy tells what is left of it, or its ad says WantAdRevaluate."""
        for slot, times in Counter(told.slot for told in cycle.matches).items():
            if times > 1 and slot not in self.consuming and slot not in self.reevaluated:
                yield f"{slot} was matched {words(times, 'time')} in one cycle"

    def missing(self, cycle: RecordedCycle, slots: Collection[str]) -> tuple[str, ...]:
        """Return which of a cycle's matches of these slots no other record shows: they cannot be excused."""
        found = (told for told in cycle.matches if told.slot in slots and not self._shown(told, cycle))
        return tuple(dict.fromkeys(f"no other record has {told.slot} given to {told.submitter}" for told in found))

    def unrefused(self, cycle: RecordedCycle, users: Collection[str]) -> tuple[str, ...]:
        """Return of which of these submitters, who got less than here, no log tells that a request got nothing."""
        return tuple(f"no log tells that {user} was refused anything" for user in users if user not in cycle.refused)

    def _shown(self, told: RecordedMatch, cycle: RecordedCycle) -> bool:
        if cycle.at in self.record.counted:
            return not any(self._accountant(told, cycle))
        claims = self.claims.get((told.slot, told.submitter), ())
        return any(0 <= at - cycle.at <= USABLE * SECOND for at in claims)

    def _queue(self, told: RecordedMatch, cycle: RecordedCycle) -> Iterator[str]:
        number, _, proc = told.job.partition(".")
        one = self.submissions.get(int(number))
        if one is None:
            return
        if one.event.submitter != told.submitter:
            yield f"job {told.job} is of {one.event.submitter}, not of {told.submitter}"
        elif int(proc) >= one.event.count:
            yield f"cluster {number} has no job {told.job}"
        elif (found := status(one, cycle, int(proc))) != "Idle":
            yield f"job {told.job} did not wait: it was {found}"

    def _accountant(self, told: RecordedMatch, cycle: RecordedCycle) -> Iterator[str]:
        counted = self.record.counted.get(cycle.at)
        if counted is None:
            return
        users = [one.submitter for one in counted.claims if told.slot in (one.slot, parent(one.slot))]
        if told.submitter not in users:
            whom = " and ".join(sorted(set(users))) or "nobody"
            yield f"the accountant counted {told.slot} for {whom}, not for {told.submitter}"

    def _counted(self, cycle: RecordedCycle) -> Iterator[str]:
        """Yield what the accountant began to count although nobody had matched or held it."""
        counted = self.record.counted.get(cycle.at)
        if counted is None or not cycle.whole:
            return
        seen = range(self.visibility.until(cycle.at - OLDEST * SECOND), self.visibility.until(cycle.at) + 1)
        held = {(parent(one.slot), one.submitter) for count in seen for one in self.visibility.claims(count)}
        held |= {(told.slot, told.submitter) for told in cycle.matches}
        if before := self.record.counted.get(cycle.after):  # the ads of a startd that was killed stay for a while
            held |= {(parent(one.slot), one.submitter) for one in before.claims}
        for one in counted.claims:
            if (parent(one.slot), one.submitter) not in held:
                yield f"the accountant counted {one.slot} for {one.submitter}, without a match or claim"
        yield from self._each_match(cycle, counted)

    def _each_match(self, cycle: RecordedCycle, counted: RecordedAccounting) -> Iterator[str]:
        """Yield where the accountant counted a slot with a consumption policy, which is matched several times and never
        claimed itself, more or less often than it was matched."""
        matched = Counter((told.slot, told.submitter) for told in cycle.matches if told.slot in self.consuming)
        booked = Counter((one.slot, one.submitter) for one in counted.claims if one.slot in self.consuming)
        for slot, user in sorted(matched.keys() | booked.keys()):
            if matched[slot, user] != booked[slot, user]:
                times = [words(count[slot, user], "time") for count in (booked, matched)]
                yield f"the accountant counted {slot} {times[0]} for {user}, and it was matched {times[1]}"


def _unmatched(record: NegotiatorRecording, submissions: Mapping[int, RecordedSubmission]) -> Iterator[tuple[int, str]]:
    """Yield the claims of the StartLog that no match made possible, each with the instant of the cycle before it. What
    happened before a cycle that is not whole, or behind the end of the log, is not known."""
    unused: dict[tuple[str, str], int] = {}
    waiting: dict[str, str] = {}
    cycles = deque(record.cycles)
    before: RecordedCycle | None = None
    for event in record.pool:
        if not isinstance(event, e.ClaimMade | e.ClaimQueued) or not event.job:
            continue
        while cycles and cycles[0].at <= event.at:
            before = cycles.popleft()
            unused |= dict.fromkeys(((told.slot, told.submitter) for told in before.matches), before.at)
        if isinstance(event, e.ClaimQueued):
            waiting[event.slot] = event.job
        elif waiting.pop(event.slot, "") == event.job:
            continue
        one = submissions.get(int(event.job.partition(".")[0]))
        if one is None:
            continue
        user, whole = one.event.submitter, parent(event.slot)
        told = unused.get((whole, user), 0)
        if whole == event.slot:
            unused[whole, user] = 0
        elif event.at - told > LEFTOVERS * SECOND:  # one match is enough for all that is cut from a slot at once
            told = 0
        if not told and before is not None and before.whole and event.at - before.at <= PROMPT * SECOND:
            yield before.at, f"{event.slot} was claimed for {user} at {clock(event.at)}, without a match"
