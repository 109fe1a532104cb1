"""A decision in the making: the events so far, and the state as they leave it.

A draft folds each event onto the state at once, since one decision often is a chain at one instant (Vacating, Owner,
Unclaimed). The state is the draft's own until the append: whoever holds it throws it away if the append fails, and
folds the log anew. Here, and only here, a change of a slot, a job, a claim, a match or a drain is put to the state
machines: what no row allows is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import Any, Generic, TypeVar, overload

import msgspec
from msgspec.structs import replace

from ..classad import Context
from ..classad.allowance import Allowance
from ..errors import PoolbookError
from ..events import Ad, EvaluationRecorded, Event, JobsTransitioned, Procs, RequestAnswered, SlotTransitioned
from ..fold.evolve import evolve
from ..ports.fabric import Fabric
from ..ports.messages import Answer, Message
from ..ports.sensor_readings import Sense, no_readings
from ..ports.stimuli import Command, SlotMessage
from ..state.caches import Caches
from ..state.cluster import MANY_RANGES, Cluster
from ..state.job_ad import KEEPS_REASONS
from ..state.pool_settings import super_users
from ..state.records import Slot
from ..state.state import LogState
from ..state_machines import (
    DEFAULT_DIALECT,
    StateMachine,
    claim_state,
    match_state,
    void_row,
)
from ..state_machines import state as state_of
from ..state_machines.claim import ENTERED
from ..state_machines.machine import MACHINES
from ..state_machines.match import MADE
from ..state_machines.slot_rows import UNLETTERED

NOT_FOUND = "not found"
"""The code of a refusal because there is no such slot, machine or job."""


class Refusal(PoolbookError):
    """Nothing was done, and why: the thing, the rule, the way out."""

    def __init__(self, text: str, code: str = "", tool: str = "") -> None:
        super().__init__(text)
        self.code, self.tool = code, tool


class Tables(dict[str, StateMachine]):
    """The machines in force by name: one for all slots, one for their letters, for all jobs, claims, matches and drains
    each. One that is not given is the dialect's, and is built when it is first asked for: most commands move jobs
    alone."""

    def __init__(self, dialect: str = DEFAULT_DIALECT, **machines: StateMachine) -> None:
        super().__init__(machines)
        self.dialect = dialect

    def __missing__(self, name: str) -> StateMachine:
        machine = self[name] = MACHINES[name](self.dialect)
        return machine


RoleState = TypeVar("RoleState", bound=LogState, covariant=True)


def context_at(state: LogState, now: int, zone: tzinfo, allowance: Allowance) -> Context:
    """Return what evaluations see of the world at an instant."""
    second = now // 1_000_000
    # What is drawn at random holds for a second, like what was found.
    return Context(now=second, seed=second, timezone=zone, user_maps=state.user_maps, allowance=allowance)


class Draft(Generic[RoleState]):
    """A decision of one role: ``state`` is the role's own part of the pool's."""

    def __init__(
        self,
        state: LogState,
        stimulus: str,
        now: int,
        tables: Tables,
        sense: Sense = no_readings,
        zone: tzinfo = UTC,
        caches: Caches | None = None,
        user: str = "",
        fabric: Fabric[Draft[Any]] | None = None,
    ) -> None:
        self._whole = state
        self.stimulus, self.now, self.tables, self.sense = stimulus, now, tables, sense
        self.state: RoleState = state  # type: ignore[assignment]  # the maker of a draft gives it to rules of its role
        self.caches = caches or Caches()
        state.trim_changes()
        self.events: list[Event] = []
        self._fired: dict[tuple[str, str, str, str | None], str] = {}
        self._noted: dict[tuple[str, str, str, tuple[tuple[str, str], ...]], int] = {}
        self.policies: dict[str, tuple[int, Any]] = {}
        """The slots' policies as they were asked last, each with the number of events until then (``startd``)."""
        self._fabric = fabric
        self.context = context_at(state, now, zone, self.caches.of(Allowance).begin(now, user))

    def emit(self, event: Event) -> None:
        self.events.append(event)
        evolve(self._whole, event)

    @overload
    def send(self, message: Message[Answer]) -> Answer: ...
    @overload
    def send(self, message: SlotMessage) -> str: ...
    def send(self, message: Message[Any] | SlotMessage) -> Any:
        """Send a message to the role that receives such; return the answer: of a request for a claim the slot's name.
        Its events are in this draft then."""
        assert self._fabric is not None, "nothing is delivered in this draft"
        return self._fabric.deliver(self, message)

    def why(self, cause: str) -> tuple[int, str, str]:
        """What every event begins with: when, why, and from what it follows."""
        return self.now, cause, self.stimulus

    def fire(self, machine: str, source: str, row: str, target: str | None = None) -> str:
        """Take a row of a machine in force ("job"), and return where it leads; ``target`` is needed if it has several.

        What the machine has allowed in this decision is not put to it again.

        :raises NotAllowed: the machine has no such transition
        """
        reached = self._fired.get((machine, source, row, target))
        if reached is None:
            reached = self._fired[machine, source, row, target] = self.tables[machine].fire(source, row, target)
        return reached

    # Slots

    def move_slot(self, slot: Slot, row: str, cause: str, target: str | None = None, evidence: int = 0) -> None:
        """One transition, with those of the slot's claim and match that are the same step, and nothing of what follows
        from it (``startd.transitions`` does that)."""
        reached = self.fire("slot", slot.state_activity, row, target)
        letter = self.tables["slot"].by_number[row].letter
        if letter not in ("", UNLETTERED):
            self.fire("letter", slot.state, letter, state_of(reached))
        if slot.claim is not None:
            job = slot.activation is not None
            before, after = claim_state(slot.state_activity, job), claim_state(reached, job)
            if before != after and after in ENTERED:  # else a better match takes over, whose claim has been made
                self.fire("claim", before, ENTERED[after], after)
        before, after = slot.match_state, match_state(reached, slot.destination)
        if before != after:
            claimed = reached.startswith("Claimed")
            self.fire("match", before, "notify" if before == MADE else "claim" if claimed else void_row(cause))
        self.emit(SlotTransitioned(*self.why(cause), slot.name, row, slot.state_activity, reached, evidence=evidence))

    def move_claim(self, slot: Slot, row: str) -> None:
        """A step of the slot's claim that is none of the slot's: its job begins, or is gone."""
        if slot.claim is not None and slot.state == "Claimed":
            self.fire("claim", claim_state(slot.state_activity, slot.activation is not None), row)

    def move_match(self, slot: Slot, row: str) -> None:
        """A step of the slot's match that is none of the slot's: it has not heard of it, or its client is there."""
        if slot.match_state == MADE or slot.state == "Backfill":
            self.fire("match", slot.match_state, row)

    def note(self, name: str, text: str, value: str, read: Ad) -> int:
        """Write down an expression, its value and what it read, and return where that stands in the log.

        What was written in this decision already is not written again. 0: it read nothing.
        """
        if not read:
            return 0
        key = (name, text, value, tuple(read.items()))
        if key not in self._noted:
            self.emit(EvaluationRecorded(*self.why("evaluated"), name, text, value, read))
            self._noted[key] = self._whole.position
        return self._noted[key]

    # Jobs

    def move_jobs(
        self,
        cluster: Cluster,
        procs: Procs,
        row: str,
        cause: str,
        source: str,
        changes: Ad,
        evidence: int = 0,
        holds: int = 1,
    ) -> None:
        """Move jobs that all are in the status `source`: the table is asked once for all of them."""
        target = self.fire("job", source, row)
        moved = JobsTransitioned(*self.why(cause), cluster.id, procs, row, source, target, changes, evidence)
        self.emit(replace(moved, reasons_kept=target in KEEPS_REASONS, holds=holds))


def ranges(procs: Sequence[int]) -> Procs:
    """Ascending process numbers as ranges."""
    if procs and procs[-1] - procs[0] == len(procs) - 1:
        return ((procs[0], procs[-1]),)
    if len(procs) >= MANY_RANGES:
        from ..state import many_jobs

        return many_jobs.ranges_of(procs)
    found: list[tuple[int, int]] = []
    for proc in procs:
        if found and found[-1][1] == proc - 1:
            found[-1] = (found[-1][0], proc)
        else:
            found.append((proc, proc))
    return tuple(found)


def job_id(cluster: int, proc: int) -> str:
    return f"{cluster}.{proc}"


def check_super_user(draft: Draft[LogState], command: Command, what: str) -> None:
    """Refuse what only the pool's owner may do to everybody else."""
    allowed = super_users(draft.state.settings)
    if command.user not in allowed:
        who = ", ".join(sorted(allowed))
        raise Refusal(f"permission denied to {what}: only the pool's owner may do that ({who})")


def answer(draft: Draft[LogState], command: Command, request: str, arguments: str, value: object) -> None:
    """Write down what was asked and what is answered."""
    text = msgspec.json.encode(value).decode()
    draft.emit(RequestAnswered(*draft.why("answered"), command.user, request, arguments, text))
