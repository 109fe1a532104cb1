"""The view of the pool, its machines and its slots, stored as the records of the live state.

A slot is loaded at its first event in a batch, and written once, at the end of the batch. A slot that is created and
destroyed within a batch is never written.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from attrs import define
from msgspec.structs import replace

from ..domain import events as e
from ..domain.events.handlers import bound_handlers
from ..domain.names import SlotName
from ..domain.state.job_ad import unquoted
from ..domain.state.offline_ads import match_changes
from ..domain.state.pool_settings import UID_DOMAIN, founding_settings
from ..domain.state.records import Machine, Slot
from ..domain.state.slot_attributes import SlotAd
from ..domain.state.slot_fold import MACHINE_FOLDS, SLOT_FOLDS, fold_transition, new_machine, new_slot
from ..domain.state_machines.slot_rows import read_pair
from .schema import insertion

_settings = msgspec.json.Decoder(dict[str, str]).decode


def _decoder(kind: type[Any]) -> Callable[[str], Any]:
    return msgspec.json.Decoder(kind, dec_hook=lambda kind, ad: kind(ad)).decode


decode_machine: Callable[[str], Machine] = _decoder(Machine)
decode_slot: Callable[[str], Slot] = _decoder(Slot)


def _text(record: Machine | Slot | Mapping[str, str]) -> str:
    return msgspec.json.encode(record, enc_hook=SlotAd.as_plain_dict).decode()


@define
class _Row:
    slot: Slot
    born: int  #: the position of the event that created it
    matched: str = ""  #: the job to which it is matched, until it is claimed

    def values(self) -> tuple[object, ...]:
        slot, claim = self.slot, self.slot.claim
        submitter, since = ("", 0) if claim is None else (claim.submitter, claim.since)
        return (
            slot.name,
            slot.machine,
            self.born,
            slot.state,
            slot.activity,
            submitter,
            since,
            self.matched,
            _text(slot),
        )


def _slot_from_record(position: int, event: e.SlotTransitioned) -> Slot:
    """Return a slot with only a name and a state. In imported logs, slots may have no creation event, because the
    daemon's log begins after their creation."""
    name = SlotName.parse(event.slot)
    kind = "dynamic" if name.dynamic else "static"
    return Slot(
        event.slot, name.machine or name.slot, kind, "", SlotAd(), read_pair(event.source), 0, 0, version=position
    )


class SlotsFold:
    """Folds a batch of events into the pool, machines and slots; ``flush`` writes the changed rows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._slots: dict[str, _Row | None] = {}
        self._machines: dict[str, Machine | None] = {}
        self._users: dict[int, str] = {}
        self._absent: dict[str, tuple[object, ...] | None] = {}
        self.handlers: dict[type[e.Event], Callable[..., None]] = {
            **dict.fromkeys(MACHINE_FOLDS, self._fold_machine_event),
            **dict.fromkeys(SLOT_FOLDS, self._fold_slot_event),
            **bound_handlers(self),
        }

    def _slot(self, name: str) -> _Row | None:
        if name not in self._slots:
            statement = "SELECT record, born, matched FROM slots WHERE name=?"
            row = self._connection.execute(statement, (name,)).fetchone()
            self._slots[name] = None if row is None else _Row(decode_slot(row[0]), *row[1:])
        return self._slots[name]

    def _machine(self, name: str) -> Machine | None:
        if name not in self._machines:
            row = self._connection.execute("SELECT record FROM machines WHERE machine=?", (name,)).fetchone()
            self._machines[name] = None if row is None else decode_machine(row[0])
        return self._machines[name]

    def _user_of(self, event: e.Event, job: str) -> str:
        ad = getattr(event, "ad", {})
        if "User" in ad or not job:
            return unquoted(ad.get("User", ""))
        cluster = int(job.partition(".")[0])
        if cluster not in self._users:
            statement = "SELECT json_extract(ad, '$.User') FROM clusters WHERE cluster=?"
            (text,) = self._connection.execute(statement, (cluster,)).fetchone() or ("",)
            self._users[cluster] = unquoted(text or "")
        return self._users[cluster]

    def on_submitted(self, position: int, event: e.ClusterSubmitted) -> None:
        self._users[event.cluster] = unquoted(event.ad.get("User", ""))

    # The pool

    def on_founded(self, position: int, event: e.PoolFounded) -> None:
        settings = founding_settings(event.uid_domain, event.settings)
        self._connection.execute("DELETE FROM pool")
        self._connection.execute(
            insertion("pool"),
            (event.name, event.dialect, settings[UID_DOMAIN], event.version, event.at, _text(settings), 0),
        )

    def on_pool_configured(self, position: int, event: e.PoolConfigured) -> None:
        (before,) = self._connection.execute("SELECT settings FROM pool").fetchone() or ("{}",)
        settings = {**_settings(before), **event.settings}
        in_force = _text({name: text for name, text in settings.items() if text})
        self._connection.execute("UPDATE pool SET settings=?", (in_force,))
        if UID_DOMAIN in event.settings:
            self._connection.execute("UPDATE pool SET uid_domain=?", (event.settings[UID_DOMAIN],))

    # Machines

    def on_machine_joined(self, position: int, event: e.MachineJoined) -> None:
        self._machines[event.machine] = new_machine(event)
        self._drop_absent(event.machine)

    def on_machine_left(self, position: int, event: e.MachineLeft) -> None:
        self._machines[event.machine] = None

    def _fold_machine_event(self, position: int, event: e.MachineConfigured) -> None:
        machine = self._machine(event.machine)
        if machine is not None:
            MACHINE_FOLDS[type(event)](machine, event)
        if isinstance(event, e.MachineExpired) and not event.expired:
            self._drop_absent(event.machine)

    # Absent ads

    def on_slot_absent(self, position: int, event: e.SlotAbsent) -> None:
        self._absent[event.slot] = (event.slot, event.machine, event.at, event.until, _text(event.ad))

    def on_offline_matched(self, position: int, event: e.OfflineMatched) -> None:
        for slot, changes in match_changes(event).items():
            row = self._absent.get(slot)
            if row is None and slot not in self._absent:
                row = self._connection.execute("SELECT * FROM absent WHERE slot=?", (slot,)).fetchone()
            if row is not None:
                self._absent[slot] = (*row[:4], _text(json.loads(str(row[4])) | changes))

    def _drop_absent(self, machine: str) -> None:
        rows = self._connection.execute("SELECT slot FROM absent WHERE machine=?", (machine,)).fetchall()
        names = [name for name, row in self._absent.items() if row is not None and row[1] == machine]
        self._absent |= dict.fromkeys([*names, *(name for (name,) in rows)])

    # Slots

    def on_slot_created(self, position: int, event: e.SlotCreated) -> None:
        self._slots[event.slot] = _Row(new_slot(event, position), position)

    def on_slot_destroyed(self, position: int, event: e.SlotDestroyed) -> None:
        row = self._slot(event.slot)
        parent = self._slot(row.slot.parent) if row is not None and row.slot.parent else None
        if row is not None and parent is not None:
            parent.slot.vacated = max(parent.slot.vacated, row.slot.vacated)
        self._slots[event.slot] = None

    def on_slot_transitioned(self, position: int, event: e.SlotTransitioned) -> None:
        row = self._slot(event.slot)
        if row is None and event.cause == "reported" and "/" in event.target:
            row = self._slots[event.slot] = _Row(_slot_from_record(position, event), position)
        if row is not None:
            fold_transition(row.slot, event, position, "")

    def _fold_slot_event(self, position: int, event: Any, user: str = "") -> None:
        row = self._slot(event.slot)
        if row is not None:
            SLOT_FOLDS[type(event)](row.slot, event, position, user)

    def on_activated(self, position: int, event: e.JobActivated) -> None:
        self._fold_slot_event(position, event, self._user_of(event, str(event.cluster)))

    def on_claim_activated(self, position: int, event: e.ClaimActivated) -> None:
        self._fold_slot_event(position, event, self._user_of(event, ""))

    def on_claimed(self, position: int, event: e.ClaimMade | e.ClaimQueued) -> None:
        row = self._slot(event.slot)
        if row is not None:
            user = self._user_of(event, "" if event.holder else event.job or row.matched)
            if isinstance(event, e.ClaimMade) or event.job:
                row.matched = ""
            self._fold_slot_event(position, event, user)

    def on_cycle(self, position: int, event: e.CycleHeld) -> None:
        for match in event.matches:
            row = self._slot(match.slot)
            if row is not None and row.slot.kind != "partitionable":  # it may have several matches
                row.matched = match.job

    def on_match_voided(self, position: int, event: e.MatchVoided) -> None:
        row = self._slot(event.slot)
        if row is not None:
            row.matched = ""

    def flush(self) -> None:
        execute = self._connection.executemany
        deleted = [(name,) for name, machine in self._machines.items() if machine is None]
        execute("DELETE FROM machines WHERE machine=?", deleted)
        machines = [machine for machine in self._machines.values() if machine is not None]
        # INSERT OR REPLACE would change the order of machines that joined at the same instant.
        upsert = f"{insertion('machines')} ON CONFLICT(machine) DO UPDATE SET record=excluded.record"
        execute(upsert, [(machine.name, machine.joined, _text(replace(machine, slots={}))) for machine in machines])
        execute("DELETE FROM slots WHERE name=?", [(name,) for name, row in self._slots.items() if row is None])
        rows = [row.values() for row in self._slots.values() if row is not None]
        execute(insertion("slots", "INSERT OR REPLACE"), rows)
        execute("DELETE FROM absent WHERE slot=?", [(name,) for name in self._absent])
        absent = [row for row in self._absent.values() if row is not None]
        execute(insertion("absent"), absent)
        if absent:  # the machines are forgotten
            self._connection.execute("DELETE FROM absent WHERE until <= (SELECT MAX(since) FROM absent)")
