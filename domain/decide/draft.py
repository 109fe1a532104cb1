"""A decision in the making: the events so far, and the state as they leave it.

A draft folds each event onto the state at once, since one decision often is a chain at one instant (Vacating, Owner,
Unclaimed). The state is the draft's own until the append: whoever holds it throws it away if the append fails, and
folds the log anew. Here, and only here, a change of a slot or a job is put to the tables: what no row allows is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import Protocol

from attrs import frozen

from ..classad import Context, unparse
from ..errors import PoolbookError
from ..events import Ad, Event, EvidenceNoted, JobsMoved, Procs, SlotMoved
from ..evolve import evolve
from ..policy.look import Look
from ..policy.readings import Sense, nothing
from ..state import Cluster, Slot, State


class Refusal(PoolbookError):
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
    def __init__(
        self,
        state: State,
        stimulus: str,
        now: int,
        tables: Tables,
        sense: Sense = nothing,
        zone: tzinfo = UTC,
    ) -> None:
        self.state, self.stimulus, self.now, self.tables, self.sense = state, stimulus, now, tables, sense
        self.events: list[Event] = []
        self._noted: dict[tuple[str, str, str, tuple[tuple[str, str], ...]], int] = {}
        self._looks: dict[str, tuple[int, Look]] = {}
        second = now // 1_000_000
        # What is drawn at random holds for a second, like what was found.
        self.context = Context(now=second, seed=second, timezone=zone)

    def emit(self, event: Event) -> None:
        self.events.append(event)
        evolve(self.state, event)

    def why(self, cause: str) -> tuple[int, str, str]:
        """What every event begins with: when, why, and from what it follows."""
        return self.now, cause, self.stimulus

    # Slots

    def move(self, slot: Slot, row: str, cause: str, target: str | None = None, evidence: int = 0) -> None:
        """One transition, and nothing of what follows from it (``point.change`` does that)."""
        reached = self.tables.slot.fire(slot.pair, row, target)
        self.emit(SlotMoved(*self.why(cause), slot.name, row, slot.pair, reached, evidence=evidence))

    def look(self, slot: Slot) -> Look:
        """The slot's policy, as of now: what was found out of it is kept until the next event."""
        known = self._looks.get(slot.name)
        if known is None or known[0] != len(self.events):
            known = self._looks[slot.name] = (
                len(self.events), Look(self.state, slot, self.sense, self.now, self.context)
            )  # fmt: skip
        return known[1]

    def evidence(self, look: Look) -> int:
        """Write down the expression that was asked last and what it read, and where that stands in the log; what was
        written in this decision already is not written again. 0 if it read nothing: a constant needs no evidence."""
        if look.verdict is None:
            return 0
        read = look.read()
        if not read:
            return 0
        text = unparse(look.verdict.expression)
        value = look.verdict.words
        key = (look.verdict.name, text, value, tuple(read.items()))
        if key not in self._noted:
            self.emit(EvidenceNoted(*self.why("evaluated"), look.verdict.name, text, value, read))
            self._noted[key] = self.state.position
        return self._noted[key]

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
