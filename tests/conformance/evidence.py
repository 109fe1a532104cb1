"""Find contradictions between a recording's other records and the matches in the negotiator's log of a cycle. The queue
shows each job's user and whether the job was idle, the accountant's log the submitter for whom a slot was counted, and
the StartLog the user who claimed it. None of them is used when a cycle is decided again, so each is independent
evidence. A cycle that one of them contradicts differs, whatever the excuse."""

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
PROMPT = 2  #: seconds after a cycle within which the StartLog reports a claim that the cycle made possible


@define
class Evidence:
    """The records other than the negotiator's log. ``consuming`` are the slots with a consumption policy."""

    record: NegotiatorRecording
    visibility: Visibility
    consuming: Collection[str]
    submissions: Mapping[int, RecordedSubmission] = field(init=False)
    claims: Mapping[tuple[str, str], Sequence[int]] = field(init=False)  #: slot, submitter -> when it was claimed
    reevaluated: Collection[str] = field(init=False)
    unmatched: Mapping[int, Sequence[str]] = field(init=False)  #: the cycle -> the claims without a match

    def __attrs_post_init__(self) -> None:
        self.submissions = {submission.event.cluster: submission for submission in self.record.queue}
        claims_by_cycle: dict[int, list[str]] = defaultdict(list)
        for at, sentence in _unmatched(self.record, self.submissions):
            claims_by_cycle[at].append(sentence)
        self.unmatched = claims_by_cycle
        creations = (event for event in self.record.pool if isinstance(event, e.SlotCreated))
        self.reevaluated = {event.slot for event in creations if "WantAdRevaluate" in event.ad}
        claims: dict[tuple[str, str], list[int]] = defaultdict(list)
        for event in self.record.pool:
            if isinstance(event, e.ClaimMade | e.ClaimQueued):
                claims[parent(event.slot), event.submitter].append(event.at)
        self.claims = claims

    def against(self, cycle: RecordedCycle) -> tuple[str, ...]:
        """Return the contradictions of a cycle's matches, as sentences."""
        sentences = dict.fromkeys(cycle.doubts)
        for match in cycle.matches:
            sentences |= dict.fromkeys([*self._queue(match, cycle), *self._accountant(match, cycle)])
        return (*sentences, *self._twice(cycle), *self._counted(cycle), *self.unmatched.get(cycle.at, ()))

    def _twice(self, cycle: RecordedCycle) -> Iterator[str]:
        """Yield the slots that were matched again. A cycle matches a slot once, unless it has a consumption policy, or
        its ad has WantAdRevaluate."""
        for slot, match_count in Counter(match.slot for match in cycle.matches).items():
            if match_count > 1 and slot not in self.consuming and slot not in self.reevaluated:
                yield f"{slot} was matched {words(match_count, 'time')} in one cycle"

    def missing(self, cycle: RecordedCycle, slots: Collection[str]) -> tuple[str, ...]:
        """Return the matches of these slots in a cycle that no other record shows: they cannot be excused."""
        unshown = (match for match in cycle.matches if match.slot in slots and not self._shown(match, cycle))
        return tuple(dict.fromkeys(f"no other record has {match.slot} given to {match.submitter}" for match in unshown))

    def unrefused(self, cycle: RecordedCycle, users: Collection[str]) -> tuple[str, ...]:
        """Return the submitters, of these who got less than in our cycle, for whom no log shows a rejection."""
        return tuple(f"no log tells that {user} was refused anything" for user in users if user not in cycle.refused)

    def _shown(self, match: RecordedMatch, cycle: RecordedCycle) -> bool:
        if cycle.at in self.record.counted:
            return not any(self._accountant(match, cycle))
        claims = self.claims.get((match.slot, match.submitter), ())
        return any(0 <= at - cycle.at <= USABLE * SECOND for at in claims)

    def _queue(self, match: RecordedMatch, cycle: RecordedCycle) -> Iterator[str]:
        number, _, proc = match.job.partition(".")
        submission = self.submissions.get(int(number))
        if submission is None:
            return
        if submission.event.submitter != match.submitter:
            yield f"job {match.job} belongs to {submission.event.submitter}, not {match.submitter}"
        elif int(proc) >= submission.event.count:
            yield f"cluster {number} has no job {match.job}"
        elif (job_status := status(submission, cycle, int(proc))) != "Idle":
            yield f"job {match.job} was not idle: it was {job_status}"

    def _accountant(self, match: RecordedMatch, cycle: RecordedCycle) -> Iterator[str]:
        counted = self.record.counted.get(cycle.at)
        if counted is None:
            return
        users = [claim.submitter for claim in counted.claims if match.slot in (claim.slot, parent(claim.slot))]
        if match.submitter not in users:
            counted_for = " and ".join(sorted(set(users))) or "no submitter"
            yield f"the accountant counted {match.slot} for {counted_for}, not for {match.submitter}"

    def _counted(self, cycle: RecordedCycle) -> Iterator[str]:
        """Yield the claims that the accountant began to count although they were neither matched nor held."""
        counted = self.record.counted.get(cycle.at)
        if counted is None or not cycle.whole:
            return
        event_counts = range(self.visibility.until(cycle.at - OLDEST * SECOND), self.visibility.until(cycle.at) + 1)
        held = {
            (parent(claim.slot), claim.submitter) for count in event_counts for claim in self.visibility.claims(count)
        }
        held |= {(match.slot, match.submitter) for match in cycle.matches}
        if before := self.record.counted.get(cycle.after):  # the ads of a killed startd remain for a while
            held |= {(parent(claim.slot), claim.submitter) for claim in before.claims}
        for claim in counted.claims:
            if (parent(claim.slot), claim.submitter) not in held:
                yield f"the accountant counted {claim.slot} for {claim.submitter}, without a match or claim"
        yield from self._each_match(cycle, counted)

    def _each_match(self, cycle: RecordedCycle, counted: RecordedAccounting) -> Iterator[str]:
        """Yield the slots with a consumption policy that the accountant counted more or less often than they were
        matched: they are matched several times and never claimed themselves."""
        matched = Counter((match.slot, match.submitter) for match in cycle.matches if match.slot in self.consuming)
        counted_claims = Counter(
            (claim.slot, claim.submitter) for claim in counted.claims if claim.slot in self.consuming
        )
        for slot, user in sorted(matched.keys() | counted_claims.keys()):
            if matched[slot, user] != counted_claims[slot, user]:
                counts = [words(count[slot, user], "time") for count in (counted_claims, matched)]
                yield f"the accountant counted {slot} {counts[0]} for {user}, and it was matched {counts[1]}"


def _unmatched(record: NegotiatorRecording, submissions: Mapping[int, RecordedSubmission]) -> Iterator[tuple[int, str]]:
    """Yield the claims of the StartLog that no match made possible, each with the instant of the previous cycle. Events
    before an incompletely logged cycle, or after the end of the log, are unknown."""
    unused_matches: dict[tuple[str, str], int] = {}
    waiting: dict[str, str] = {}
    cycles = deque(record.cycles)
    before: RecordedCycle | None = None
    for event in record.pool:
        if not isinstance(event, e.ClaimMade | e.ClaimQueued) or not event.job:
            continue
        while cycles and cycles[0].at <= event.at:
            before = cycles.popleft()
            unused_matches |= dict.fromkeys(((match.slot, match.submitter) for match in before.matches), before.at)
        if isinstance(event, e.ClaimQueued):
            waiting[event.slot] = event.job
        elif waiting.pop(event.slot, "") == event.job:
            continue
        submission = submissions.get(int(event.job.partition(".")[0]))
        if submission is None:
            continue
        user, parent_slot = submission.event.submitter, parent(event.slot)
        match = unused_matches.get((parent_slot, user), 0)
        if parent_slot == event.slot:
            unused_matches[parent_slot, user] = 0
        elif (
            event.at - match > LEFTOVERS * SECOND
        ):  # one match is enough for all dynamic slots that are cut from a slot in one second
            match = 0
        if not match and before is not None and before.whole and event.at - before.at <= PROMPT * SECOND:
            yield before.at, f"{event.slot} was claimed for {user} at {clock(event.at)}, without a match"
