"""A decision in the making: the events so far, and the state as they leave it.

A draft folds each event onto the state at once, since one decision often is a chain at one instant (Vacating, Owner,
Unclaimed). The state is the draft's own until the append: whoever holds it throws it away if the append fails, and
folds the log anew. Here, and only here, a change of a slot or a job is put to the tables: what no row allows is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from ..classad import Context
from ..dialects import Step, chain
from ..events import Ad, Event, JobsMoved, Procs, SlotMoved
from ..evolve import evolve
from ..state import Cluster, Slot, State


class Refusal(Exception):
    """Nothing was done, and why: the thing, the rule, the way out."""


class Table(Protocol):
    """A state machine built from a table of rows (``lifecycle``)."""

    def fire(self, source: str, number: str, target: str | None = None) -> str: ...


@frozen
class Tables:
    """The machines in force: one for all slots, one for all jobs."""

    slot: Table
    job: Table


class Draft:
    def __init__(self, state: State, stimulus: str, now: int, tables: Tables) -> None:
        self.state, self.stimulus, self.now, self.tables = state, stimulus, now, tables
        self.events: list[Event] = []
        second = now // 1_000_000
        self.context = Context(now=second, seed=second)  # what is drawn holds for a second, like what was found

    def emit(self, event: Event) -> None:
        self.events.append(event)
        evolve(self.state, event)

    def why(self, cause: str) -> tuple[int, str, str]:
        """What every event begins with: when, why, and from what it follows."""
        return self.now, cause, self.stimulus

    # Slots

    def move(self, slot: Slot, step: Step) -> None:
        target = self.tables.slot.fire(slot.pair, step.row, step.target)
        self.emit(SlotMoved(*self.why(step.cause), slot.name, step.row, slot.pair, target))

    def follow(self, slot: Slot, happening: str) -> None:
        """Take the slot through the chain of transitions that the dialect has for what happened."""
        for step in chain(self.state.dialect, happening):
            self.move(slot, step)

    # Jobs

    def move_jobs(self, cluster: Cluster, procs: Procs, row: str, cause: str, source: str, changes: Ad) -> None:
        """Move jobs that all are in the status `source`: the table is asked once for all of them."""
        target = self.tables.job.fire(source, row)
        self.emit(JobsMoved(*self.why(cause), cluster.id, procs, row, source, target, changes))


def ranges(procs: Sequence[int]) -> Procs:
    """Ascending process numbers as ranges."""
    found: list[tuple[int, int]] = []
    for proc in procs:
        if found and found[-1][1] == proc - 1:
            found[-1] = (found[-1][0], proc)
        else:
            found.append((proc, proc))
    return tuple(found)


def job_id(cluster: int, proc: int) -> str:
    return f"{cluster}.{proc}"
