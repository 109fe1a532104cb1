"""The invariants of a pool, as checks of its state and its log. Each raises `AssertionError` if it does not hold."""

from __future__ import annotations

import copy
import sqlite3

from attrs import define, field

from ...domain import events as e
from ...domain.ports.log import EventStore
from ...domain.state.state import State
from ...domain.state_machines import job_machine, slot_machine
from ...replay.validation import validate

CLAIMED = ("Claimed", "Preempting")
RESOURCES = ("Cpus", "Memory", "Disk")


def plain_state(state: State) -> dict[str, object]:
    """Return all parts of a state that events determine, in a form that can be compared."""
    clusters = {
        cluster.id: (
            bytes(cluster.status),
            cluster.status_counts,
            cluster.live,
            [cluster.attributes(proc) for proc in cluster.procs()],
        )
        for cluster in state.clusters.values()
    }
    names = ("position", "settings", "machines", "slots", "next_cluster", "unused_cluster_ids", "usage", "activations")
    tables = ("matches", "assigned_slots", "ready_claims", "reservations")
    return {name: copy.deepcopy(getattr(state, name)) for name in (*names, *tables)} | {"clusters": clusters}


def check_runs(state: State) -> None:
    """Check that no job runs twice at the same time, and that each slot runs one job, on a claim."""
    activations = list(state.activations.values())
    assert len({(each.cluster, each.proc) for each in activations}) == len(activations), "a job runs twice"
    assert len({each.slot for each in activations}) == len(activations), "a slot runs two jobs"
    for activation in activations:
        slot = state.slots[activation.slot]
        assert slot.activation is not None and slot.activation.key == activation.key, slot.name
        assert slot.claim is not None, f"{slot.name} runs a job without a claim"


def check_claims(state: State) -> None:
    """Check that a slot has a claim exactly in Claimed and Preempting, that no two slots have the same claim, and that
    reserved claims exist."""
    for slot in state.slots.values():
        assert (slot.claim is not None) == (slot.state in CLAIMED), f"{slot.name} is {slot.state}"
    claims = [slot.claim.id for slot in state.slots.values() if slot.claim is not None]
    assert len(set(claims)) == len(claims), "two slots have the same claim"
    reserved = [pair for reservation in state.reservations.values() for pair in reservation.claims.items()]
    assert len({slot for slot, _ in reserved}) == len(reserved)
    for name, claim in reserved:
        slot_claim = state.slots[name].claim
        assert slot_claim is not None and slot_claim.id == claim, f"the reserved claim of {name} is gone"


@define
class LogInvariants:
    """The invariants that read the log's events, each event once. Pass each event to ``take``, before it is folded into
    a state."""

    resources: dict[str, e.Ad] = field(factory=dict)  #: partitionable slot -> its ad when it was created
    open_claims: dict[str, tuple[str, int, int]] = field(factory=dict)  #: claim -> slot, start and weight
    ended: set[str] = field(factory=set)
    usage: dict[str, int] = field(factory=dict)

    def take(self, event: e.Event, state: State) -> None:
        """Check an event, with the state before it: it is a row of its table, and its claim ends once, with the usage
        of exactly its time."""
        match event:
            case e.SlotCreated() if event.kind == "partitionable":
                self.resources[event.slot] = dict(event.ad)
            case e.SlotTransitioned():
                assert event.source == state.slots[event.slot].state_activity, event
                assert slot_machine(state.dialect.name).allows(event.source, event.row, event.target), event
            case e.JobsTransitioned():
                assert job_machine(state.dialect.name).allows(event.source, event.row, event.target), event
            case e.JobActivated() | e.ClaimActivated() if event.slot in state.slots:
                assert state.slots[event.slot].activation is None, event
            case e.ClaimMade():
                assert event.claim not in self.ended and event.claim not in self.open_claims, event
                self.open_claims[event.claim] = event.slot, event.at, event.weight
            case e.ClaimEnded():
                slot, since, weight = self.open_claims.pop(event.claim)
                self.ended.add(event.claim)
                assert (slot, event.usage) == (event.slot, (event.at - since) * weight), event
                self.usage[event.submitter] = self.usage.get(event.submitter, 0) + event.usage

    def check(self, state: State) -> None:
        """Check a state between two decisions: the slots of a machine use exactly its resources, and usage is the sum
        of the claims."""
        assert set(self.open_claims) == {slot.claim.id for slot in state.slots.values() if slot.claim is not None}
        assert state.usage == self.usage, "the accounts differ from the sum of the claims"
        for slot in state.slots.values():
            if slot.kind == "partitionable":
                for name in RESOURCES:
                    carved = sum(int(each.ad[name]) for each in state.slots.values() if each.parent == slot.name)
                    whole = int(self.resources[slot.name][name])
                    assert int(slot.ad[name]) >= 0 and int(slot.ad[name]) + carved == whole, f"{name} of {slot.name}"


def check_legality(log: EventStore) -> None:
    """Check that every event of a log was allowed."""
    violations = list(validate(log.read()))
    assert not violations, "\n".join(map(str, violations))


def view_rows(views: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of all tables of views."""
    tables = [name for (name,) in views.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {name: sorted(views.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in sorted(tables)}
