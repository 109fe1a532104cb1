"""The pool as it stands: its name, its machines with their drains, and each slot's state, ad, claim and job.

A slot is read when the first event of a batch is about it and written once at the batch's end, however often it moved;
one that was born and died within the batch never reaches the disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import msgspec
from attrs import astuple, define

from ..domain import events as e
from ..domain.state.evolve import BIRTH
from ..domain.state.job_ad import quoted, unquoted
from ..domain.state.settings import UID_DOMAIN, as_founded
from ..domain.state_machines.drain import OPEN
from .schema import SLOT_ATTRIBUTES, insertion

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
    facts: dict[str, str]

    def row(self) -> tuple[object, ...]:
        return (*astuple(self, recurse=False)[:-2], _text(self.ad), _text(self.facts))


@define
class _Machine:
    """A row of the table of machines, its columns in their order."""

    machine: str
    joined: int
    ad: dict[str, str]
    shutdown: str
    start: str
    facts: dict[str, str]
    new: bool = False
    """Whether it has no row yet; one that has keeps its place among the others."""

    def row(self) -> tuple[object, ...]:
        return (self.machine, self.joined, _text(self.ad), self.shutdown, self.start, _text(self.facts))

    def changes(self) -> tuple[object, ...]:
        return (self.shutdown, self.start, _text(self.facts), self.machine)


def _text(ad: dict[str, str]) -> str:
    return msgspec.json.encode(ad).decode()


def _seconds(at: int) -> str:
    return str(at // 1_000_000)


_OF_A_DRAIN = ("Draining", "DrainReason", "DrainingRequestId")
_OF_A_CLAIM = ("RemoteOwner", "RemoteUser", "AccountingGroup")
_OF_A_WAITING_CLAIM = ("PreemptingOwner", "PreemptingUser", "PreemptingAccountingGroup", "PreemptingRank")


def _users(names: tuple[str, ...], user: str, submitter: str) -> dict[str, str]:
    """What is said of a claim whose job is `user`'s: owner, user, and who it counts for where that is somebody else."""
    owner, name, group = names
    return {} if user == submitter else {owner: quoted(user), name: quoted(user), group: quoted(submitter)}


def _seen(position: int, event: e.SlotTransitioned) -> _Slot:
    """A slot of which nothing is known but its name and where it was."""
    name, _, machine = event.slot.partition("@")
    state, _, activity = event.source.partition("/")
    kind = "dynamic" if "_" in name else "static"
    return _Slot(
        event.slot, machine or name, kind, "", position, state, activity, 0, 0, "", "", 0, 0, "",
        {"Name": quoted(event.slot), "Machine": quoted(machine or name)}, {},
    )  # fmt: skip


class SlotsFold:
    """Folds a batch of events; ``flush`` writes what they changed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._slots: dict[str, _Slot | None] = {}
        self._machines: dict[str, _Machine | None] = {}
        self._users: dict[int, str] = {}
        self.handlers: dict[type[e.Event], Callable[..., None]] = {
            e.PoolFounded: self._founded,
            e.PoolConfigured: self._pool_configured,
            e.MachineJoined: self._joined,
            e.MachineConfigured: self._configured,
            e.MachineLeft: self._left,
            e.BenchmarksRan: self._benchmarks,
            e.DrainBegan: self._drain_began,
            e.DrainTransitioned: self._drain_moved,
            e.DrainBadputAdded: self._drain_charged,
            e.ShutdownBegan: self._shutdown,
            e.SlotCreated: self._born,
            e.SlotTransitioned: self._moved,
            e.SlotAdChanged: self._changed,
            e.SlotDestroyed: self._died,
            e.ClaimMade: self._claim_made,
            e.ClaimEnded: self._claim_ended,
            e.ClaimQueued: self._claim_waits,
            e.ClaimWithdrawn: self._claim_withdrawn,
            e.ClaimFlagged: self._claim_marked,
            e.ClaimActivated: self._job_began,
            e.ClaimDeactivated: self._job_gone,
            e.ClusterSubmitted: self._submitted,
            e.JobActivated: self._activated,
            e.JobExited: self._exited,
        }

    def _slot(self, name: str) -> _Slot | None:
        if name not in self._slots:
            row = self._connection.execute("SELECT * FROM slots WHERE name=?", (name,)).fetchone()
            self._slots[name] = None if row is None else _Slot(*(*row[:-2], _ad(row[-2]), _ad(row[-1])))
        return self._slots[name]

    def _machine(self, name: str) -> _Machine | None:
        if name not in self._machines:
            row = self._connection.execute("SELECT * FROM machines WHERE machine=?", (name,)).fetchone()
            self._machines[name] = (
                None if row is None else _Machine(row[0], row[1], _ad(row[2]), row[3], row[4], _ad(row[5]))
            )
        return self._machines[name]

    def _user(self, cluster: int) -> str:
        """Whose a cluster's jobs are; empty for one of which nothing is known."""
        if cluster not in self._users:
            statement = "SELECT json_extract(ad, '$.User') FROM clusters WHERE cluster=?"
            (text,) = self._connection.execute(statement, (cluster,)).fetchone() or ("",)
            self._users[cluster] = unquoted(text or "")
        return self._users[cluster]

    def _submitted(self, position: int, event: e.ClusterSubmitted) -> None:
        self._users[event.cluster] = unquoted(event.ad.get("User", ""))

    def _founded(self, position: int, event: e.PoolFounded) -> None:
        settings = as_founded(event.uid_domain, event.settings)
        text = msgspec.json.encode(settings).decode()
        self._connection.execute("DELETE FROM pool")
        self._connection.execute(
            insertion("pool"), (event.name, event.dialect, settings[UID_DOMAIN], event.version, event.at, text, 0)
        )

    def _pool_configured(self, position: int, event: e.PoolConfigured) -> None:
        (before,) = self._connection.execute("SELECT settings FROM pool").fetchone() or ("{}",)
        settings = {**_ad(before), **event.settings}
        in_force = msgspec.json.encode({name: text for name, text in settings.items() if text}).decode()
        self._connection.execute("UPDATE pool SET settings=?", (in_force,))
        if UID_DOMAIN in event.settings:
            self._connection.execute("UPDATE pool SET uid_domain=?", (event.settings[UID_DOMAIN],))

    def _joined(self, position: int, event: e.MachineJoined) -> None:
        facts = {SLOT_ATTRIBUTES: event.settings[SLOT_ATTRIBUTES]} if SLOT_ATTRIBUTES in event.settings else {}
        self._machines[event.machine] = _Machine(event.machine, event.at, event.ad, "", "", facts, new=True)

    def _configured(self, position: int, event: e.MachineConfigured) -> None:
        machine = self._machine(event.machine)
        if machine is not None and SLOT_ATTRIBUTES in event.settings:
            machine.facts[SLOT_ATTRIBUTES] = event.settings[SLOT_ATTRIBUTES]

    def _left(self, position: int, event: e.MachineLeft) -> None:
        self._machines[event.machine] = None

    def _benchmarks(self, position: int, event: e.BenchmarksRan) -> None:
        machine = self._machine(event.machine)
        if machine is not None:
            mips, kflops = event.published
            machine.facts |= {"Mips": str(mips), "KFlops": str(kflops), "LastBenchmark": _seconds(event.at)}

    def _drain_began(self, position: int, event: e.DrainBegan) -> None:
        machine = self._machine(event.machine)
        if machine is not None:
            machine.start = event.start
            machine.facts |= dict(
                zip(_OF_A_DRAIN, ("true", quoted(event.reason), quoted(str(event.drain))), strict=True),
                LastDrainStartTime=_seconds(event.at),
            )

    def _drain_moved(self, position: int, event: e.DrainTransitioned) -> None:
        machine = self._machine(event.machine)
        if machine is not None and event.target == OPEN:
            machine.start = ""
            machine.facts = {name: text for name, text in machine.facts.items() if name not in _OF_A_DRAIN}
            machine.facts["LastDrainStopTime"] = _seconds(event.at)

    def _drain_charged(self, position: int, event: e.DrainBadputAdded) -> None:
        machine = self._machine(event.machine)
        if machine is not None:
            before = int(machine.facts.get("TotalMachineDrainingBadput", "0"))
            machine.facts["TotalMachineDrainingBadput"] = str(before + event.badput)

    def _shutdown(self, position: int, event: e.ShutdownBegan) -> None:
        machine = self._machine(event.machine)
        if machine is not None:
            machine.shutdown = event.how

    def _born(self, position: int, event: e.SlotCreated) -> None:
        state, _, activity = BIRTH.partition("/")
        self._slots[event.slot] = _Slot(
            event.slot, event.machine, event.kind, event.parent, position, state, activity, event.at, event.at,
            "", "", 0, 0, "", dict(event.ad), {},
        )  # fmt: skip

    def _moved(self, position: int, event: e.SlotTransitioned) -> None:
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

    def _changed(self, position: int, event: e.SlotAdChanged) -> None:
        slot = self._slot(event.slot)
        if slot is not None:
            slot.ad.update(event.changes)
            for name in [name for name, text in event.changes.items() if not text]:
                del slot.ad[name]

    def _died(self, position: int, event: e.SlotDestroyed) -> None:
        self._slots[event.slot] = None

    def _claim_made(self, position: int, event: e.ClaimMade) -> None:
        slot = self._slot(event.slot)
        if slot is not None:
            slot.claim, slot.submitter, slot.weight, slot.claimed = event.claim, event.submitter, event.weight, event.at
            slot.facts = {"CurrentRank": repr(event.rank), **_users(_OF_A_CLAIM, self._asks(event), event.submitter)}
            if event.holder:
                slot.facts["ClientMachine"] = quoted(event.holder)

    def _claim_waits(self, position: int, event: e.ClaimQueued) -> None:
        slot = self._slot(event.slot)
        if slot is not None:
            user = self._asks(event)
            slot.facts = {name: text for name, text in slot.facts.items() if name not in _OF_A_WAITING_CLAIM}
            slot.facts |= {"PreemptingOwner": quoted(user), "PreemptingUser": quoted(user)}
            slot.facts |= _users(_OF_A_WAITING_CLAIM[:3], user, event.submitter) | {"PreemptingRank": repr(event.rank)}

    def _asks(self, event: e.ClaimMade | e.ClaimQueued) -> str:
        """Whose the job is that a claim is for."""
        cluster = event.job.partition(".")[0]
        user = unquoted(event.ad.get("User", "")) if event.holder or not cluster else self._user(int(cluster))
        return user or event.submitter

    def _claim_withdrawn(self, position: int, event: e.ClaimWithdrawn) -> None:
        slot = self._slot(event.slot)
        if slot is not None:
            slot.facts = {name: text for name, text in slot.facts.items() if name not in _OF_A_WAITING_CLAIM}

    def _claim_marked(self, position: int, event: e.ClaimFlagged) -> None:
        slot = self._slot(event.slot)
        if slot is not None and "late" in event.flags:
            slot.facts["AcceptedWhileDraining"] = "true"

    def _claim_ended(self, position: int, event: e.ClaimEnded) -> None:
        slot = self._slot(event.slot)
        if slot is not None:
            slot.claim, slot.submitter, slot.weight, slot.claimed = "", "", 0, 0
            slot.facts = {name: text for name, text in slot.facts.items() if name in _OF_A_WAITING_CLAIM}

    def _activated(self, position: int, event: e.JobActivated) -> None:
        self._begin(event.slot, f"{event.cluster}.{event.proc}", event.at, self._user(event.cluster))

    def _exited(self, position: int, event: e.JobExited) -> None:
        self._end(event.slot)

    def _job_began(self, position: int, event: e.ClaimActivated) -> None:
        self._begin(event.slot, event.job, event.at, unquoted(event.ad.get("User", "")))

    def _job_gone(self, position: int, event: e.ClaimDeactivated) -> None:
        self._end(event.slot)

    def _begin(self, name: str, job: str, at: int, user: str) -> None:
        slot = self._slot(name)
        if slot is not None:
            slot.job = job
            if user:
                slot.facts = {name: text for name, text in slot.facts.items() if name not in _OF_A_CLAIM}
                slot.facts |= _users(_OF_A_CLAIM, user, slot.submitter)
            slot.facts["JobStart"] = _seconds(at)

    def _end(self, name: str) -> None:
        slot = self._slot(name)
        if slot is not None:
            slot.job = ""
            slot.facts.pop("JobStart", None)

    def flush(self) -> None:
        execute = self._connection.executemany
        gone = [(name,) for name, machine in self._machines.items() if machine is None]
        execute("DELETE FROM machines WHERE machine=?", gone)
        there = [machine for machine in self._machines.values() if machine is not None]
        execute(insertion("machines", "INSERT OR REPLACE"), [machine.row() for machine in there if machine.new])
        changes = [machine.changes() for machine in there if not machine.new]
        execute("UPDATE machines SET shutdown=?, start=?, facts=? WHERE machine=?", changes)
        execute("DELETE FROM slots WHERE name=?", [(name,) for name, slot in self._slots.items() if slot is None])
        rows = [slot.row() for slot in self._slots.values() if slot is not None]
        execute(insertion("slots", "INSERT OR REPLACE"), rows)
