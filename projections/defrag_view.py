"""The defragmentation view: a stored copy of the live state's record (``domain/state/defrag_state``)."""

from __future__ import annotations

import sqlite3
from functools import cached_property

import msgspec

from ..domain import events as e
from ..domain.events.handlers import bound_handlers
from ..domain.fold.evolve import evolve
from ..domain.state.defrag_state import Defrag
from ..domain.state.state import State
from .schema import insertion


class DefragFold:
    """Folds a batch of events into the defragmentation record; ``flush`` writes it if it changed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        row = connection.execute("SELECT settings FROM pool").fetchone()
        self._settings = msgspec.json.decode(row[0], type=dict[str, str]) if row is not None else {}
        self._changed = False
        self.handlers = bound_handlers(self)

    @cached_property
    def _state(self) -> State:
        return State(settings=self._settings, defrag=read_record(self._connection))

    def on_change(self, position: int, event: e.PoolFounded | e.PoolConfigured | e.DefragPolled) -> None:
        evolve(self._state, event)
        self._changed = True

    def flush(self) -> None:
        if self._changed:
            self._connection.execute("DELETE FROM defrag")
            record = msgspec.json.encode(self._state.defrag).decode()
            self._connection.execute(insertion("defrag"), (record,))


def read_record(connection: sqlite3.Connection) -> Defrag:
    """Return the stored record, or an initial one if none is stored."""
    row = connection.execute("SELECT record FROM defrag").fetchone()
    return Defrag() if row is None else msgspec.json.decode(row[0], type=Defrag)
