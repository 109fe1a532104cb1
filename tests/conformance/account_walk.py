"""Walk through a recording's cycles, keeping the accounts and comparing them with the recorded ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import define, field, frozen

from poolbook.domain import events as e

from .accountant import NOBODY, AccountantReplay, ComparedSample, UnknownAccount
from .match_costs import MatchCosts
from .recording import (
    CountedClaim,
    KnownAccount,
    NegotiatorRecording,
    RecordedAccounting,
    RecordedCycle,
    UserprioSample,
)
from .visibility import Visibility, VisibleEvents


@frozen
class AccountedCycle:
    """A cycle with the visible events, the updated priorities, and the submitters whose priority is ``unknown``."""

    at: int
    cycle: RecordedCycle | None
    visible: VisibleEvents
    priorities: e.PrioritiesUpdated
    unknown: Mapping[str, UnknownAccount]

    def why(self, submitter: str) -> UnknownAccount | None:
        """Return why a submitter's priority is unknown, or None if it is known."""
        if submitter in self.unknown or submitter in self.priorities.priorities:
            return self.unknown.get(submitter)
        return self.unknown.get(NOBODY)


@define
class AccountWalk:
    """The accounts of a recording. ``samples`` (condor_userprio) and ``named`` (the negotiator's log) are compared with
    them; ``started`` are samples from which an unknown account was restored."""

    record: NegotiatorRecording
    accountant: AccountantReplay = field(factory=AccountantReplay)
    visibility: Visibility = field(init=False)
    costs: MatchCosts = field(init=False)
    samples: list[ComparedSample] = field(factory=list)
    named: list[ComparedSample] = field(factory=list)
    started: list[UserprioSample] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.visibility = Visibility(self.record.pool)
        self.costs = MatchCosts(self.record, self.visibility.weights)

    def moments(self) -> Iterator[AccountedCycle]:
        """Yield all cycles, in order."""
        record = self.record
        cycles = {recorded.at: recorded for recorded in record.cycles}
        instants = sorted({*cycles, *record.counted})
        visible_events = self.visibility.of(instants, cycles, record.counted)
        for recorded in record.pool:
            if isinstance(recorded, e.PoolFounded):
                self.accountant.take(recorded)
        pending = iter([*record.settings, None])
        following = next(pending)
        self._begin(record.known)
        before = record.began
        for at in instants:
            while following is not None and following.at <= at:
                self.accountant.take(following)
                following = next(pending)
            cycle, counted = cycles.get(at), record.counted.get(at)
            if not _follows(before, cycle, counted):
                self.accountant.lose(UnknownAccount("missing", at) if before else UnknownAccount("unknown"))
            yield AccountedCycle(
                at, cycle, visible_events[at], self._account(at, cycle, counted), dict(self.accountant.unknown)
            )
            self._count(visible_events[at], cycle, counted)
            before = at
        self.samples += [
            ComparedSample(recorded, why=UnknownAccount("elsewhere"))
            for recorded in record.samples
            if recorded.at not in visible_events
        ]

    def _begin(self, accounts: tuple[KnownAccount, ...]) -> None:
        for account in accounts:
            self.accountant.begin(self.record.began, account.submitter, account.real, account.usage, account.factor)

    def _account(self, at: int, cycle: RecordedCycle | None, counted: RecordedAccounting | None) -> e.PrioritiesUpdated:
        """Update the priorities, and compare them."""
        accountant, named_priorities = self.accountant, cycle.effective if cycle is not None else {}
        accountant.account(at)
        for submitter, priority in (counted.priorities if counted is not None else {}).items():
            if accountant.why(submitter):
                assert counted is not None
                accountant.begin(at, submitter, priority, counted.usage.get(submitter))
        for sample in self.record.samples:
            if sample.at != at:
                continue
            if accountant.why(sample.submitter):
                accountant.begin(at, sample.submitter, sample.effective / sample.factor, sample.usage, sample.factor)
                self.started.append(sample)
            else:
                self.samples.append(accountant.compare(sample))
        for submitter, effective in named_priorities.items():
            factor = accountant.factor(submitter)
            self.named.append(
                accountant.compare(UserprioSample(at, "NegotiatorLog", submitter, effective, factor, 0.0))
            )
        priorities = {name: account.priority for name, account in accountant.state.submitters.items()}
        return e.PrioritiesUpdated(at, "accounted", "", priorities)

    def _count(self, visible: VisibleEvents, cycle: RecordedCycle | None, counted: RecordedAccounting | None) -> None:
        """Count the cycle's claims. If they count from a second after the update, no one held them until then."""
        accountant, at = self.accountant, visible.at
        since = max(at, counted.since if counted is not None else 0)
        if since > at:
            accountant.count(at, ())
        if counted is not None and (cycle is None or not cycle.whole):
            accountant.count(since, counted.claims)
            return
        accountant.count(since, visible.claims)
        if not visible.agrees:
            accountant.lose(UnknownAccount("contradicted", at))
        elif visible.doubtful:
            accountant.lose(UnknownAccount("unseen", at), sorted(visible.doubtful))
        if counted is None and cycle is not None and cycle.until > at and visible.claims:
            accountant.lose(UnknownAccount("late", at), sorted({claim.submitter for claim in visible.claims}))
        if cycle is None:
            return
        claims = (*visible.claims, *(counted.claims if counted is not None else ()))
        for match, weight in self.costs.of(cycle, visible.count, {claim.slot: claim.weight for claim in claims}):
            if weight is None:
                accountant.lose(UnknownAccount("unweighed", at), [match.submitter])
            else:
                accountant.match(max(since, match.at), CountedClaim(match.slot, match.submitter, weight))


def _follows(before: int, cycle: RecordedCycle | None, counted: RecordedAccounting | None) -> bool:
    """Return True if no cycle is missing between the previous one and this."""
    if not before:
        return False
    links = [record.after for record in (cycle, counted) if record is not None]
    return before in links or before in (record.at for record in (cycle, counted) if record is not None)
