"""Who is granted how much, and has used how much: the accountant's books (``domain/negotiator/accounting``).

What an event does to them is ``domain/fold/evolve``'s to say. Of claims only the weights are kept, by their slots;
where a
log begins in the middle of a claim, nothing is known of it.
"""

from __future__ import annotations

import sqlite3
from itertools import starmap

import msgspec

from ..domain import events as e
from ..domain.events.handlers import bound_handlers
from ..domain.fold.evolve import evolve
from ..domain.names import AccountName
from ..domain.negotiator.accounting import initial, terms
from ..domain.state.state import State, Submitter
from .schema import insertion

_decode = msgspec.json.Decoder(dict[str, tuple[float, int]]).decode
_settings = msgspec.json.Decoder(dict[str, str]).decode
_encode = msgspec.json.Encoder().encode


class AccountingFold:
    """Folds a batch of events; ``flush`` writes what they changed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._books = State()
        row = connection.execute("SELECT settings FROM pool").fetchone()
        if row is not None:
            self._books.settings = _settings(row[0])
        self._known: dict[str, None] = {}
        self._claims: dict[str, int | None] = {}
        self.handlers = bound_handlers(self)

    def _read(self, name: str) -> None:
        """Have the submitter's record among the books, if it has one."""
        if name in self._known:
            return
        self._known[name] = None
        row = self._connection.execute("SELECT * FROM submitters WHERE submitter=?", (name,)).fetchone()
        if row is None:
            return
        (_, priority, updated, factor, floor, ceiling, leases, using, slots, counted, weighted, plain, drawn, usage,
         ended, begin, last) = row  # fmt: skip
        self._books.submitters[name] = Submitter(
            AccountName.parse(name).submitter, priority, updated, factor, floor, ceiling, _decode(leases), using, slots,
            counted, int(weighted), int(plain), int(drawn), int(usage), ended, begin, last,
        )  # fmt: skip

    def _submitter(self, event: e.ClusterSubmitted | e.ClaimMade) -> Submitter:
        negotiator = event.negotiator if isinstance(event, e.ClaimMade) else ""
        return self._record(str(AccountName(negotiator, event.submitter)), event.at, event.factor)

    def _record(self, name: str, at: int, factor: float = 0.0) -> Submitter:
        self._read(name)
        self._books.at = at
        return self._books.submitter(name, factor)

    def on_configured(self, position: int, event: e.PoolFounded | e.PoolConfigured) -> None:
        evolve(self._books, event)

    def on_submitted(self, position: int, event: e.ClusterSubmitted) -> None:
        self._submitter(event)

    def on_claim_made(self, position: int, event: e.ClaimMade) -> None:
        self._claims[event.slot] = event.weight
        self._submitter(event).take(event.weight, event.at)

    def on_claim_ended(self, position: int, event: e.ClaimEnded) -> None:
        account = str(AccountName(event.negotiator, event.submitter))
        self._record(account, event.at).give_back(self._weight(event.slot), event.usage, event.at)
        self._claims[event.slot] = None

    def _weight(self, slot: str) -> int | None:
        """What the slot's claim weighs; None if it has none."""
        if slot not in self._claims:
            row = self._connection.execute("SELECT weight FROM claims WHERE slot=?", (slot,)).fetchone()
            self._claims[slot] = None if row is None else row[0]
        return self._claims[slot]

    def on_priorities(self, position: int, event: e.PrioritiesUpdated) -> None:
        for name in event.priorities:
            self._read(str(AccountName(event.negotiator, name)))
        evolve(self._books, event)

    def on_submitter(self, position: int, event: e.SubmitterSet | e.SubmitterDeleted) -> None:
        self._read(str(AccountName(event.negotiator, event.submitter)))
        evolve(self._books, event)

    def on_reset(self, position: int, event: e.SubmittersReset) -> None:
        for name in event.submitters:
            self._read(str(AccountName(event.negotiator, name)))
        evolve(self._books, event)

    def flush(self) -> None:
        books = self._books.submitters
        gone = [(name,) for name in self._known if name not in books]
        self._connection.executemany("DELETE FROM submitters WHERE submitter=?", gone)
        self._connection.executemany(insertion("submitters", "INSERT OR REPLACE"), starmap(_row, books.items()))
        claims = self._claims.items()
        over = [(slot,) for slot, weight in claims if weight is None]
        self._connection.executemany("DELETE FROM claims WHERE slot=?", over)
        held = [(slot, weight) for slot, weight in claims if weight is not None]
        self._connection.executemany(insertion("claims", "INSERT OR REPLACE"), held)
        if self._books.priorities_updated_at:
            self._connection.execute("UPDATE pool SET accounted=?", (self._books.priorities_updated_at,))


def _first_factor(submitter: Submitter) -> float:
    """Return the factor that a submitter began with, of a log that does not say it."""
    return initial(submitter.name, terms(submitter.appeared_under or {}))


def _row(name: str, submitter: Submitter) -> tuple[object, ...]:
    factor, leases = submitter.factor or _first_factor(submitter), _encode(submitter.leases).decode()
    return (
        name, submitter.priority, submitter.updated, factor, submitter.floor, submitter.ceiling, leases,
        submitter.weighted_in_use, submitter.slots, submitter.counted, str(submitter.weighted_usage),
        str(submitter.unweighted_usage),
        str(submitter.usage_accounted), str(submitter.ended_usage), submitter.ended,
        submitter.begin, submitter.last,
    )  # fmt: skip
