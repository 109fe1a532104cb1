"""Replay the accountant as the real one works: cycle by cycle, in whole seconds. In each cycle it first updates the
priorities by the usage counted since the previous cycle. Then it counts a claim for every slot that is claimed in the
ads that the cycle saw. A match of the cycle counts from then on until the next cycle, together with the claim that it
preempts. So usage changes only with cycles, and the replay has its own claim events; the domain's code computes the
accounts from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from attrs import define, field, frozen
from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.negotiator.accounting import (
    LEAST_PRIORITY,
    AccountantSettings,
    accountant_settings,
    priority_at,
    priority_factor,
)
from poolbook.domain.state.records import Submitter
from poolbook.domain.state.state import State

from ..accounting.priorities import effective_priority, real_priority
from .recording import CountedClaim, UserprioSample, clock

NOBODY: Final = ""
UNKNOWN_BECAUSE: Final[dict[str, str]] = {
    "unknown": "where the accounts stood at the beginning is not known",
    "missing": "cycles before that of {} are missing",
    "unseen": "the claims that the cycle of {} knew are not recorded",
    "late": "it is not recorded whether the cycle of {} counted the claims in that second or in the next",
    "unweighed": "the resources that a match of the cycle of {} took from its slot are not recorded",
    "contradicted": "the claims that the cycle of {} counted differ from the StartLog's",
    "elsewhere": "no cycle is known that updated it",
}
"""Reason -> why the state of an account is unknown."""


class UnknownAccount(NamedTuple):
    """Why an account is unknown: one of ``UNKNOWN_BECAUSE``, since the cycle at an instant."""

    name: str
    at: int = 0

    def __str__(self) -> str:
        return UNKNOWN_BECAUSE[self.name].format(clock(self.at))

    @property
    def gone(self) -> bool:
        """True if all usage since then is unknown; False if only that of a few slots, for one cycle."""
        return self.name in ("unknown", "missing")


@frozen
class ComparedSample:
    """The replayed account next to a sample, or ``why`` it is unknown. ``usage`` is in seconds (None: unknown)."""

    sample: UserprioSample
    real: float = 0.0
    effective: float = 0.0
    factor: float = 0.0
    usage: float | None = None
    why: UnknownAccount | None = None

    @property
    def off(self) -> float:
        """The relative error of the effective priority, or of the real priority if that is greater."""
        recorded = self.sample.effective, self.sample.effective / self.sample.factor
        return max(
            abs(ours - theirs) / theirs for ours, theirs in zip((self.effective, self.real), recorded, strict=True)
        )


@define
class AccountantReplay:
    """The accounts. ``unknown`` has the submitters whose account is unknown, and ``NOBODY`` for all submitters not yet
    seen; ``partly`` those with only the usage unknown."""

    state: State = field(factory=State)
    unknown: dict[str, UnknownAccount] = field(factory=dict)
    partly: set[str] = field(factory=set)

    @property
    def terms(self) -> AccountantSettings:
        return accountant_settings(self.state.settings)

    def take(self, event: e.Event) -> None:
        """Fold a setting of the negotiator or a submitter, as of the last update. The real accountant ages a new value
        by all of the time since then, and counts that time's usage again."""
        at = self.state.priorities_updated_at or event.at
        if isinstance(event, e.PoolFounded | e.PoolConfigured):
            evolve(self.state, event)
        elif isinstance(event, e.SubmitterSet):
            self._meet(event.submitter)
            evolve(self.state, replace(event, at=at))
        elif isinstance(event, e.SubmitterDeleted):  # its claims count again in the next cycle
            self._uncount(at, event.submitter)
            evolve(self.state, replace(event, at=at))
        elif isinstance(event, e.SubmittersReset):
            evolve(self.state, replace(event, at=at, submitters=event.submitters or tuple(self.state.submitters)))

    def account(self, at: int) -> e.PrioritiesUpdated:
        """Update the priorities."""
        halflife, before = self.terms.halflife, self.state.priorities_updated_at
        now = {name: priority_at(submitter, before, at, halflife) for name, submitter in self.state.submitters.items()}
        event = e.PrioritiesUpdated(at, "accounted", "", now)
        evolve(self.state, event)
        return event

    def count(self, at: int, claims: Iterable[CountedClaim]) -> None:
        """Count these claims from now on, and no others."""
        self._uncount(at)
        for claim in claims:
            self.match(at, claim)

    def _uncount(self, at: int, submitter: str = "") -> None:
        """Stop counting the claims of a submitter, or of all."""
        for slot, counted_claims in list(self.state.slots.items()):
            if counted_claims.claim is not None and submitter in ("", counted_claims.claim.submitter):
                evolve(self.state, e.ClaimEnded(at, "reported", "", slot, slot, counted_claims.claim.submitter, 0))

    def match(self, at: int, claim: CountedClaim) -> None:
        """Count a claim or a match, in addition to the slot's others."""
        name, number = claim.slot, 1
        while name in self.state.slots and self.state.slots[name].claim is not None:
            number += 1
            name = f"{claim.slot}#{number}"
        self._meet(claim.submitter)
        if name not in self.state.slots:
            evolve(self.state, e.SlotCreated(at, "reported", "", name, "", "static", "", {}))
        evolve(self.state, e.ClaimMade(at, "reported", "", name, name, claim.submitter, claim.weight))

    def _meet(self, submitter: str) -> None:
        """Open an account as of the last update, as usage is averaged over the whole time until the next one. It is
        also unknown while some account is unknown: it may have existed before."""
        if submitter in self.state.submitters:
            return
        at = self.state.priorities_updated_at or self.state.at
        evolve(self.state, e.SubmitterSet(at, "reported", "", submitter, "", "priority", LEAST_PRIORITY))
        if NOBODY in self.unknown:
            self.unknown[submitter] = self.unknown[NOBODY]

    def begin(self, at: int, submitter: str, priority: float, usage: float | None, set_factor: float = 0.0) -> None:
        """Set the state of an account, which is known from now on."""
        fields = {"priority": priority}
        if usage is not None:
            fields["usage"] = usage
        if set_factor:
            fields["factor"] = set_factor
        for name, value in fields.items():
            evolve(self.state, e.SubmitterSet(at, "reported", "", submitter, "", name, value))
        self.unknown.pop(submitter, None)
        self.partly.discard(submitter) if usage is not None else self.partly.add(submitter)

    def lose(self, why: UnknownAccount, submitters: Iterable[str] = ()) -> None:
        """Make the accounts of these submitters (of all, if none are named) unknown from now on."""
        self.unknown |= dict.fromkeys(tuple(submitters) or (*self.state.submitters, NOBODY), why)

    def why(self, submitter: str) -> UnknownAccount | None:
        """Return why an account is unknown, or None if it is known."""
        if submitter in self.unknown:
            return self.unknown[submitter]
        return None if submitter in self.state.submitters else self.unknown.get(NOBODY)

    def compare(self, sample: UserprioSample) -> ComparedSample:
        """Compare a sample of this instant with the account."""
        if why := self.why(sample.submitter):
            return ComparedSample(sample, why=why)
        account = self.state.submitter(sample.submitter)
        return ComparedSample(
            sample,
            real_priority(self.state, account, self.terms.halflife),
            self.effective(account),
            priority_factor(account, self.terms, sample.at),
            None if sample.submitter in self.partly else account.usage_until(sample.at) / 1e9,
        )

    def effective(self, account: Submitter) -> float:
        return effective_priority(account, self.terms, self.state.at)

    def factor(self, submitter: str) -> float:
        """Return the factor of a submitter, with or without an account."""
        return priority_factor(self.state.submitters.get(submitter) or Submitter(submitter), self.terms, self.state.at)
