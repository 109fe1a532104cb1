"""What is to be done in the world because an event is in the log.

An effect is derived from an event and from nothing else, after the append, so that after a crash the same effects are
derived again; each is keyed by an activation or a backfill client, the log's position of the event that began it, so
that the world can tell what it has done already.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ..events import (
    BackfillExited,
    BackfillSignalled,
    BackfillStarted,
    Event,
    JobActivated,
    JobDue,
    JobExited,
    JobSignalled,
    JobsTransitioned,
    MailDue,
    SlotTransitioned,
)
from ..state.records import Activation
from ..state.state import State
from .world import How


class Start(Struct, frozen=True):
    """Start the processes of an activation."""

    key: str


class StartClient(Struct, frozen=True):
    """Start the backfill client of a machine."""

    machine: str


class Signal(Struct, frozen=True):
    """``how``: see ``world.How``."""

    key: str
    how: How


class Forget(Struct, frozen=True):
    """The end of an activation is in the log: what the world kept to tell of it may go."""

    key: str


class Benchmark(Struct, frozen=True):
    """Run the benchmarks for a slot."""

    slot: str


class Send(Struct, frozen=True):
    """Send the mail whose event stands at this position."""

    mail: int


Effect = Start | StartClient | Signal | Forget | Benchmark | Send

BENCHMARKING = "Unclaimed/Benchmarking"
_ENDINGS: dict[str, How] = {"Held": "hold", "Removed": "remove"}
_PAUSES: dict[str, How] = {"suspend": "suspend", "continue": "continue"}


def ending(state: State, activation: Activation, stop: str) -> How:
    """How the world is to tell a job to end that was told to so (soft or hard): a job that is held or removed has a
    signal of its own for that (HoldKillSig, RemoveKillSig)."""
    if stop == "hard":
        return "hard"
    return _ENDINGS.get(state.clusters[activation.cluster].status_of(activation.proc), "soft")


def effects(state: State, position: int, event: Event) -> Iterator[Effect]:
    """The effects of the event at `position`; `state` is the state after the append that it was part of."""
    if isinstance(event, JobActivated):
        if not event.deferred:
            yield Start(str(position))
    elif isinstance(event, JobDue):
        activation = state.by_job.get((event.cluster, event.proc))
        if activation is not None:
            yield Start(activation.key)
    elif isinstance(event, JobSignalled):
        activation = state.by_job.get((event.cluster, event.proc))
        if activation is not None:
            yield Signal(activation.key, ending(state, activation, event.how))
    elif isinstance(event, JobsTransitioned) and event.row in _PAUSES:
        for first, last in event.procs:
            for proc in range(first, last + 1):
                activation = state.by_job.get((event.cluster, proc))
                if activation is not None:
                    yield Signal(activation.key, _PAUSES[event.row])
    elif isinstance(event, JobExited | BackfillExited):
        yield Forget(event.key)
    elif isinstance(event, BackfillStarted):
        yield StartClient(event.machine)
    elif isinstance(event, BackfillSignalled):
        yield Signal(event.key, "hard")
    elif isinstance(event, SlotTransitioned) and event.target == BENCHMARKING:
        yield Benchmark(event.slot)
    elif isinstance(event, MailDue):
        yield Send(position)
