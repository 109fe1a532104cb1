"""Who used how much: the usage that each submitter's ended claims add up to, and how many claims there were."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from attrs import define

from ..domain.events import ClaimEnded, ClaimMade, Event
from .schema import insertion


@define
class _Submitter:
    name: str
    usage: int = 0
    claims: int = 0
    ended: int = 0
    last_use: int = 0


class AccountingFold:
    """Folds a batch of events; ``flush`` writes what they changed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._submitters: dict[str, _Submitter] = {}
        self.handlers: dict[type[Event], Callable[..., None]] = {
            ClaimMade: self._claim_made,
            ClaimEnded: self._claim_ended,
        }

    def _submitter(self, name: str) -> _Submitter:
        known = self._submitters.get(name)
        if known is None:
            row = self._connection.execute("SELECT * FROM submitters WHERE submitter=?", (name,)).fetchone()
            known = _Submitter(name) if row is None else _Submitter(name, int(row[1]), *row[2:])
            self._submitters[name] = known
        return known

    def _claim_made(self, position: int, event: ClaimMade) -> None:
        submitter = self._submitter(event.submitter)
        submitter.claims += 1
        submitter.last_use = event.at

    def _claim_ended(self, position: int, event: ClaimEnded) -> None:
        submitter = self._submitter(event.submitter)
        submitter.ended += 1
        submitter.usage += event.usage
        submitter.last_use = event.at

    def flush(self) -> None:
        self._connection.executemany(
            insertion("submitters", "INSERT OR REPLACE"),
            [(s.name, str(s.usage), s.claims, s.ended, s.last_use) for s in self._submitters.values()],
        )
