"""The actions in the world that an event in the log causes.

Effects are computed from events after these are appended, so they can be computed again after a crash. The key of an
effect is the position of the first event of its activation or backfill client. By this key, the world recognizes
effects that it has already carried out, and skips them.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ..events import (
    BackfillExited,
    BackfillSignalled,
    BackfillStarted,
    ClaimActivated,
    ClaimDeactivated,
    Event,
    JobActivated,
    JobDue,
    JobExited,
    JobSignalled,
    JobsTransitioned,
    MachineEvent,
    MailDue,
    RunReported,
    SlotEvent,
    SlotTransitioned,
    StarterSignalled,
)
from ..state.records import DUE, Activation, Slot
from ..state.slot_fold import SUSPENDED
from ..state.state import ExecutionPoint, State, acts_as
from .world import How


class Start(Struct, frozen=True):
    """Start the processes of an activation, or only transfer its input files if its start is still deferred."""

    key: str


class StartClient(Struct, frozen=True):
    """Start a machine's backfill client."""

    machine: str


class Signal(Struct, frozen=True):
    """Signal the processes of an activation or backfill client (``world.How``)."""

    key: str
    how: How


class DeleteRecord(Struct, frozen=True):
    """Delete the world's record of an ended activation, because the log now contains the end."""

    key: str


class Benchmark(Struct, frozen=True):
    """Run the benchmarks for a slot."""

    slot: str


class Send(Struct, frozen=True):
    """Send the mail whose event is at this log position."""

    mail: int


Effect = Start | StartClient | Signal | DeleteRecord | Benchmark | Send

BENCHMARKING = "Unclaimed/Benchmarking"
_ENDINGS: dict[str, How] = {"Held": "hold", "Removed": "remove"}
_SOFT_SIGNALS: dict[str, How] = {"hold": "hold", "remove": "remove"}
_PAUSES: dict[str, How] = {"suspend": "suspend", "continue": "continue"}


def how_to_end(state: State, activation: Activation, stop: str) -> How:
    """Return how to end a job, given whether it ends softly or hard (``stop``). A soft end of a held or removed job
    uses a separate signal (HoldKillSig, RemoveKillSig)."""
    if stop == "hard":
        return "hard"
    return _ENDINGS.get(state.clusters[activation.cluster].status_of(activation.proc), "soft")


def _how_to_end_remote(stop: str, signal: str) -> How:
    """Return how to end a job of an external access point; ``signal`` as in ``StarterSignalled``."""
    return "hard" if stop == "hard" else _SOFT_SIGNALS.get(signal, "soft")


def how_to_resume_remote(slot: Slot) -> How:
    """Return the signal that the processes of an external access point's job receive after a restart of the pool,
    because it is unknown which earlier signals were sent."""
    starter = slot.activation
    if starter is not None and starter.stop_signal:
        return _how_to_end_remote(starter.stop_signal, starter.soft_signal)
    return "suspend" if slot.state_activity == SUSPENDED else "continue"


def _slot_effects(state: State, position: int, event: SlotEvent) -> Iterator[Effect]:
    if isinstance(event, SlotTransitioned):
        if event.target == BENCHMARKING:
            yield Benchmark(event.slot)
        elif SUSPENDED in (event.source, event.target):
            for key in _remote_run(state, position, event):
                yield Signal(key, "suspend" if event.target == SUSPENDED else "continue")
    elif isinstance(event, ClaimActivated) and event.key:
        if not event.deferred or event.files_first:
            yield Start(str(position))
    elif isinstance(event, RunReported) and event.report == DUE:
        for key in _remote_run(state, position, event):
            yield Start(key)
            if state.slots[event.slot].state_activity == SUSPENDED:
                yield Signal(key, "suspend")
    elif isinstance(event, StarterSignalled):
        for key in _remote_run(state, position, event):
            yield Signal(key, _how_to_end_remote(event.how, event.signal))
    elif isinstance(event, ClaimDeactivated) and event.starter:
        yield DeleteRecord(event.starter)


def _remote_run(state: State, position: int, event: SlotEvent) -> Iterator[str]:
    """Yield the key of the processes that the slot had at this position, if the pool runs them for an external access
    point and they have not ended."""
    slot = state.slots.get(event.slot)
    starter = None if slot is None else slot.activation
    if starter is not None and starter.remote_key and int(starter.key) < position:
        yield starter.key


def _runs_here(state: State, claim: str) -> bool:
    """Return True if a job with this claim runs here. A job without a claim needs no slot, so it runs where its access
    point is."""
    return not claim or acts_as(state, ExecutionPoint)


def effects(state: State, position: int, event: Event) -> Iterator[Effect]:
    """Yield the effects of the event at ``position``. ``state`` is the state after the event was appended."""
    if isinstance(event, SlotEvent | MachineEvent) and not acts_as(state, ExecutionPoint):
        return  # a copy: the slot is elsewhere
    if isinstance(event, SlotEvent):  # most events of a large decision
        yield from _slot_effects(state, position, event)
    elif isinstance(event, JobActivated):
        if (not event.deferred or event.files_first) and _runs_here(state, event.claim):
            yield Start(str(position))
    elif isinstance(event, JobDue):
        activation = state.by_job.get((event.cluster, event.proc))
        if activation is not None and not state.runs_elsewhere(activation):
            yield Start(activation.key)
    elif isinstance(event, JobSignalled):
        activation = state.by_job.get((event.cluster, event.proc))
        if activation is not None:
            yield Signal(activation.key, how_to_end(state, activation, event.how))
    elif isinstance(event, JobsTransitioned) and event.row in _PAUSES:
        for first, last in event.procs:
            for proc in range(first, last + 1):
                activation = state.by_job.get((event.cluster, proc))
                if activation is not None:
                    yield Signal(activation.key, _PAUSES[event.row])
    elif isinstance(event, JobExited | BackfillExited):
        yield DeleteRecord(event.key)
    elif isinstance(event, BackfillStarted):
        yield StartClient(event.machine)
    elif isinstance(event, BackfillSignalled):
        yield Signal(event.key, "hard")
    elif isinstance(event, MailDue):
        yield Send(position)
