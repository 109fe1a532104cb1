"""The walk through a trace's cycles with the books in hand: what they say at each instant, beside what was recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import define, field, frozen

from ...domain import events as e
from .accountant import NOBODY, Books, Compared, Why
from .recording import Claimed, Counted, Happened, Known, Record, Sample
from .visibility import Sight, Sights


@frozen
class Moment:
    """A cycle, as the books have it: what it had heard of the slots, the priorities that it came to, and whose are not
    known."""

    at: int
    cycle: Happened | None
    sight: Sight
    priorities: e.PrioritiesUpdated
    unknown: Mapping[str, Why]

    def why(self, submitter: str) -> Why | None:
        """Why somebody's priority is not known; None: it is."""
        if submitter in self.unknown or submitter in self.priorities.priorities:
            return self.unknown.get(submitter)
        return self.unknown.get(NOBODY)


@define
class Accounts:
    """The books of a trace, and what they were compared with: ``samples`` of condor_userprio and what the negotiator's
    own log said (``named``). ``started`` are the samples from which an account that had been lost went on."""

    record: Record
    books: Books = field(factory=Books)
    sights: Sights = field(init=False)
    samples: list[Compared] = field(factory=list)
    named: list[Compared] = field(factory=list)
    started: list[Sample] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.sights = Sights(self.record.pool)

    def moments(self) -> Iterator[Moment]:
        """Go through all cycles, in order."""
        record = self.record
        cycles = {one.at: one for one in record.cycles}
        instants = sorted({*cycles, *record.counted})
        seen = self.sights.of(instants, cycles, record.counted)
        for one in record.pool:
            if isinstance(one, e.PoolFounded):
                self.books.take(one)
        pending = iter([*record.settings, None])
        following = next(pending)
        self._begin(record.known)
        before = record.began
        for at in instants:
            while following is not None and following.at <= at:
                self.books.take(following)
                following = next(pending)
            cycle, counted = cycles.get(at), record.counted.get(at)
            if not _follows(before, cycle, counted):
                self.books.lose(Why("missing", at) if before else Why("unknown"))
            yield Moment(at, cycle, seen[at], self._account(at, cycle, counted), dict(self.books.unknown))
            self._count(seen[at], cycle, counted)
            before = at
        self.samples += [Compared(one, why=Why("elsewhere")) for one in record.samples if one.at not in seen]

    def _begin(self, known: tuple[Known, ...]) -> None:
        for one in known:
            self.books.begin(self.record.began, one.submitter, one.real, one.usage, one.factor)

    def _account(self, at: int, cycle: Happened | None, counted: Counted | None) -> e.PrioritiesUpdated:
        """Bring the priorities up to date, and compare them."""
        books, named = self.books, cycle.effective if cycle is not None else {}
        books.account(at)
        for submitter, priority in (counted.priorities if counted is not None else {}).items():
            if books.why(submitter):
                assert counted is not None
                books.begin(at, submitter, priority, counted.usage.get(submitter))
        for sample in self.record.samples:
            if sample.at != at:
                continue
            if books.why(sample.submitter):
                books.begin(at, sample.submitter, sample.effective / sample.factor, sample.usage, sample.factor)
                self.started.append(sample)
            else:
                self.samples.append(books.compare(sample))
        for submitter, effective in named.items():
            factor = books.factor(submitter)
            self.named.append(books.compare(Sample(at, "NegotiatorLog", submitter, effective, factor, 0.0)))
        priorities = {name: one.priority for name, one in books.state.submitters.items()}
        return e.PrioritiesUpdated(at, "accounted", "", priorities)

    def _count(self, sight: Sight, cycle: Happened | None, counted: Counted | None) -> None:
        """Count what the cycle counted. What is counted a second after the priorities were brought up to date, was
        nobody's until then."""
        books, at = self.books, sight.at
        since = max(at, counted.since if counted is not None else 0)
        if since > at:
            books.count(at, ())
        if counted is not None and (cycle is None or not cycle.whole):
            books.count(since, counted.claims)
            return
        books.count(since, sight.claims)
        if not sight.agrees:
            books.lose(Why("contradicted", at))
        elif sight.doubtful:
            books.lose(Why("unseen", at), sorted(sight.doubtful))
        if counted is None and cycle is not None and cycle.until > at and sight.claims:
            books.lose(Why("late", at), sorted({one.submitter for one in sight.claims}))
        for told in cycle.matches if cycle is not None else ():
            weight = self._weight(told.slot, sight, counted)
            books.match(max(since, told.at), Claimed(told.slot, told.submitter, weight))

    def _weight(self, slot: str, sight: Sight, counted: Counted | None) -> int:
        """What a slot that was matched counts for."""
        claims = (*(counted.claims if counted is not None else ()), *sight.claims)
        known = next((one.weight for one in claims if one.slot == slot), 0)
        return known or self.sights.weights.get(slot, 1000)


def _follows(before: int, cycle: Happened | None, counted: Counted | None) -> bool:
    """Whether no cycle is missing between the one before and this."""
    if not before:
        return False
    links = [one.after for one in (cycle, counted) if one is not None]
    return before in links or before in (one.at for one in (cycle, counted) if one is not None)
