"""The pool as it stands: its name, its machines, and each slot's state, ad, claim and job.

A slot is read when the first event of a batch is about it and written once at the batch's end, however often it moved;
one that was born and died within the batch never reaches the disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import msgspec
from attrs import astuple, define

from ..domain import events as e
from ..domain.evolve import BIRTH
from ..domain.job_ad import quoted
from .schema import insertion

_ad = msgspec.json.Decoder(dict[str, str]).decode


@define
class _Slot:
    """A row of the table, its columns in their order."""

    name: str
    machine: str
    kind: str
    parent: str
    born: int
    state: str
    activity: str
    entered_state: int
    entered_activity: int
    claim: str
    submitter: str
    weight: int
    claimed: int
    job: str
    ad: dict[str, str]

    def row(self) -> tuple[object, ...]:
        return (*astuple(self, recurse=False)[:-1], msgspec.json.encode(self.ad).decode())


def _seen(position: int, event: e.SlotMoved) -> _Slot:
    """A slot of which nothing is known but its name and where it was."""
    name, _, machine = event.slot.partition("@")
    state, _, activity = event.source.partition("/")
    kind = "dynamic" if "_" in name else "static"
    return _Slot(
        event.slot, machine or name, kind, "", position, state, activity, 0, 0, "", "", 0, 0, "",
        {"Name": quoted(event.slot), "Machine": quoted(machine or name)},
    )  # fmt: skip


class SlotsFold:
    """Folds a batch of events; ``flush`` writes what they changed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._slots: dict[str, _Slot | None] = {}
        self.handlers: dict[type[e.Event], Callable[..., None]] = {
            e.PoolFounded: self._founded,
            e.MachineJoined: self._joined,
            e.MachineLeft: self._left,
            e.SlotBorn: self._born,
            e.SlotMoved: self._moved,
            e.SlotChanged: self._changed,
            e.SlotDied: self._died,
            e.ClaimMade: self._claim_made,
            e.ClaimEnded: self._claim_ended,
            e.JobActivated: self._activated,
            e.JobExited: self._exited,
        }

    def _slot(self, name: str) -> _Slot | None:
        if name not in self._slots:
            row = self._connection.execute("SELECT * FROM slots WHERE name=?", (name,)).fetchone()
            self._slots[name] = None if row is None else _Slot(*(*row[:-1], _ad(row[-1])))
        return self._slots[name]

    def _founded(self, position: int, event: e.PoolFounded) -> None:
        settings = msgspec.json.encode(event.settings).decode()
        self._connection.execute("DELETE FROM pool")
        self._connection.execute(
            insertion("pool"), (event.name, event.dialect, event.uid_domain, event.version, event.at, settings)
        )

    def _joined(self, position: int, event: e.MachineJoined) -> None:
        row = (event.machine, event.at, msgspec.json.encode(event.ad).decode())
        self._connection.execute(insertion("machines", "INSERT OR REPLACE"), row)

    def _left(self, position: int, event: e.MachineLeft) -> None:
        self._connection.execute("DELETE FROM machines WHERE machine=?", (event.machine,))

    def _born(self, position: int, event: e.SlotBorn) -> None:
        state, _, activity = BIRTH.partition("/")
        self._slots[event.slot] = _Slot(
            event.slot, event.machine, event.kind, event.parent, position, state, activity, event.at, event.at,
            "", "", 0, 0, "", dict(event.ad),
        )  # fmt: skip

    def _moved(self, position: int, event: e.SlotMoved) -> None:
        slot = self._slot(event.slot)
        if slot is None and event.cause == "reported" and "/" in event.target:
            # A real pool's log that begins in the middle tells of slots whose birth it does not have.
            slot = self._slots[event.slot] = _seen(position, event)
        if slot is not None:
            state, _, activity = event.target.partition("/")
            if state != slot.state:
                slot.entered_state = event.at
            slot.entered_activity = event.at
            slot.state, slot.activity = state, activity

    def _changed(self, position: int, event: e.SlotChanged) -> None:
        slot = self._slot(event.slot)
        if slot is not None:
            slot.ad.update(event.changes)
            for name in [name for name, text in event.changes.items() if not text]:
                del slot.ad[name]

    def _died(self, position: int, event: e.SlotDied) -> None:
        self._slots[event.slot] = None

    def _claim_made(self, position: int, event: e.ClaimMade) -> None:
        slot = self._slot(event.slot)
        if slot is not None:
            slot.claim, slot.submitter, slot.weight, slot.claimed = event.claim, event.submitter, event.weight, event.at

    def _claim_ended(self, position: int, event: e.ClaimEnded) -> None:
        slot = self._slot(event.slot)
        if slot is not None:
            slot.claim, slot.submitter, slot.weight, slot.claimed = "", "", 0, 0

    def _activated(self, position: int, event: e.JobActivated) -> None:
        slot = self._slot(event.slot)
        if slot is not None:
            slot.job = f"{event.cluster}.{event.proc}"

    def _exited(self, position: int, event: e.JobExited) -> None:
        slot = self._slot(event.slot)
        if slot is not None:
            slot.job = ""

    def flush(self) -> None:
        execute = self._connection.executemany
        execute("DELETE FROM slots WHERE name=?", [(name,) for name, slot in self._slots.items() if slot is None])
        rows = [slot.row() for slot in self._slots.values() if slot is not None]
        execute(insertion("slots", "INSERT OR REPLACE"), rows)
