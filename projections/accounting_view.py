"""The accounting view: submitters' priorities and usage (``domain/negotiator/accounting``).

It reuses the folds of the negotiator's live state. Of each claim it stores only the weight, by slot. A claim that began
before the log did is not in this view.
"""

from __future__ import annotations

import sqlite3
from itertools import starmap

import msgspec

from ..domain import events as e
from ..domain.events.handlers import bound_handlers
from ..domain.fold.evolve import MANAGER, evolve
from ..domain.names import AccountName
from ..domain.negotiator.accounting import accountant_settings, initial_factor
from ..domain.state.records import Submitter
from ..domain.state.state import Manager
from .schema import insertion

_decode = msgspec.json.Decoder(dict[str, tuple[float, int]]).decode
_settings = msgspec.json.Decoder(dict[str, str]).decode
_encode = msgspec.json.Encoder().encode


class AccountingFold:
    """Folds a batch of events into submitters' accounts; ``flush`` writes the changed rows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._manager = Manager()
        row = connection.execute("SELECT settings FROM pool").fetchone()
        if row is not None:
            self._manager.settings = _settings(row[0])
        self._known: dict[str, None] = {}
        self._slots: dict[str, None] = {}
        self.handlers = bound_handlers(self)

    def _read(self, name: str) -> None:
        if name in self._known:
            return
        self._known[name] = None
        row = self._connection.execute("SELECT * FROM submitters WHERE submitter=?", (name,)).fetchone()
        if row is None:
            return
        (_, priority, updated, factor, floor, ceiling, leases, in_use, slots, counted, weighted, unweighted, accounted,
         ended_usage, ended, first, last) = row  # fmt: skip
        self._manager.submitters[name] = Submitter(
            AccountName.parse(name).submitter, priority, updated, factor, floor, ceiling, _decode(leases), in_use,
            slots, counted, int(weighted), int(unweighted), int(accounted), int(ended_usage), ended, first, last,
        )  # fmt: skip

    def _fold(self, event: e.Event, *names: str) -> None:
        """Fold an event that changes the accounts of the submitters in `names`."""
        for name in names:
            self._read(str(AccountName(getattr(event, "negotiator", ""), name)))
        self._manager.at = event.at
        MANAGER[type(event)](self._manager, event)

    def on_configured(self, position: int, event: e.PoolFounded | e.PoolConfigured) -> None:
        evolve(self._manager, event)

    def on_submitter(self, position: int, event: e.ClusterSubmitted | e.SubmitterSet | e.SubmitterDeleted) -> None:
        self._fold(event, event.submitter)

    def on_claim(self, position: int, event: e.ClaimMade | e.ClaimEnded) -> None:
        if event.slot not in self._slots:
            self._slots[event.slot] = None
            row = self._connection.execute("SELECT weight FROM claims WHERE slot=?", (event.slot,)).fetchone()
            if row is not None:
                self._manager.resources[event.slot] = row[0], ""
        self._fold(event, event.submitter)

    def on_priorities(self, position: int, event: e.PrioritiesUpdated) -> None:
        self._fold(event, *event.priorities)

    def on_reset(self, position: int, event: e.SubmittersReset) -> None:
        self._fold(event, *event.submitters)

    def flush(self) -> None:
        accounts = self._manager.submitters
        deleted = [(name,) for name in self._known if name not in accounts]
        self._connection.executemany("DELETE FROM submitters WHERE submitter=?", deleted)
        self._connection.executemany(insertion("submitters", "INSERT OR REPLACE"), starmap(_row, accounts.items()))
        resources = self._manager.resources
        unclaimed = [(slot,) for slot in self._slots if slot not in resources]
        self._connection.executemany("DELETE FROM claims WHERE slot=?", unclaimed)
        weights = [(slot, resources[slot][0]) for slot in self._slots if slot in resources]
        self._connection.executemany(insertion("claims", "INSERT OR REPLACE"), weights)
        if self._manager.priorities_updated_at:
            self._connection.execute("UPDATE pool SET accounted=?", (self._manager.priorities_updated_at,))


def _initial_factor(submitter: Submitter) -> float:
    """Return the initial priority factor of a submitter whose event does not record it."""
    return initial_factor(submitter.name, accountant_settings(submitter.appeared_under or {}))


def _row(name: str, submitter: Submitter) -> tuple[object, ...]:
    factor, leases = submitter.factor or _initial_factor(submitter), _encode(submitter.leases).decode()
    return (
        name, submitter.priority, submitter.updated, factor, submitter.floor, submitter.ceiling, leases,
        submitter.weighted_in_use, submitter.slots, submitter.counted_until, str(submitter.weighted_usage),
        str(submitter.unweighted_usage),
        str(submitter.usage_accounted), str(submitter.ended_usage), submitter.ended_claims,
        submitter.first_used, submitter.last_used,
    )  # fmt: skip
