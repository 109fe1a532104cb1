"""A decision in progress: its events so far, and the state that results from them.

A decision is often a chain of transitions (Vacating, Owner, Unclaimed), so a draft folds each event into the state
immediately, and the next step reads the result. Therefore the caller must discard the state and replay the log if the
append fails. A draft moves slots, jobs, claims, matches and drains only along the rows of their state machines.
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
from ..state_machines import DEFAULT_DIALECT, StateMachine, claim_state, match_state, void_row
from ..state_machines import state as state_of
from ..state_machines.claim import ROWS_BY_STATE
from ..state_machines.machine import MACHINES
from ..state_machines.match import INITIAL_MATCH_STATE
from ..state_machines.slot_rows import UNLETTERED

NOT_FOUND, DENIED = "not found", "permission denied"
"""The codes of refusals: the slot, machine or job does not exist; only the pool's owner may do that."""


class Refusal(PoolbookError):
    """A rejected command, which has no effect. The message names the problem, the rule and the fix.

    >>> pool.remove_machine("node9")
    Traceback (most recent call last):
    Refusal: ...
    """

    def __init__(self, text: str, code: str = "", tool: str = "") -> None:
        super().__init__(text)
        self.code, self.tool = code, tool


class Tables(dict[str, StateMachine]):
    """The state machines by name: for slots and their lettered transitions, jobs, claims, matches and drains.
    The dialect's machines are built on first use, because most commands move only jobs."""

    def __init__(self, dialect: str = DEFAULT_DIALECT, **machines: StateMachine) -> None:
        super().__init__(machines)
        self.dialect = dialect

    def __missing__(self, name: str) -> StateMachine:
        machine = self[name] = MACHINES[name](self.dialect)
        return machine


RoleState = TypeVar("RoleState", bound=LogState, covariant=True)


def context_at(state: LogState, now: int, zone: tzinfo, allowance: Allowance) -> Context:
    """Return the context of all evaluations at the given time."""
    second = now // 1_000_000
    # Random numbers change once per second, like everything else in the context.
    return Context(now=second, seed=second, timezone=zone, user_maps=state.user_maps, allowance=allowance)


class Draft(Generic[RoleState]):
    """A decision of one role. ``state`` contains that role's part of the pool's state."""

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
        self._full_state = state
        self.stimulus, self.now, self.tables, self.sense = stimulus, now, tables, sense
        self.state: RoleState = state  # type: ignore[assignment]  # callers create drafts only for rules of their role
        self.caches = caches or Caches()
        state.trim_changes()
        self.events: list[Event] = []
        self._allowed: dict[tuple[str, str, str, str | None], str] = {}
        self._slot_moves: dict[tuple[str, str, str, str | None, bool, bool, str], str] = {}
        self._recorded: dict[tuple[str, str, str, tuple[tuple[str, str], ...]], int] = {}
        self.policies: dict[str, tuple[int, Any]] = {}
        """The slots' cached policies, each with the number of events when it was evaluated (``startd``)."""
        self._fabric = fabric
        self.context = context_at(state, now, zone, self.caches.get(Allowance).set_payer(now, user))

    def emit(self, event: Event) -> None:
        self.events.append(event)
        evolve(self._full_state, event)

    @overload
    def send(self, message: Message[Answer]) -> Answer: ...
    @overload
    def send(self, message: SlotMessage) -> str: ...
    def send(self, message: Message[Any] | SlotMessage) -> Any:
        """Send a message to its receiver role, and return the answer (for a claim request, the slot's name). If the
        roles share a log, this draft then also contains the receiver's events."""
        assert self._fabric is not None, "nothing is delivered in this draft"
        return self._fabric.deliver(self, message)

    def header(self, cause: str) -> tuple[int, str, str]:
        """Return the fields with which every event begins: time (microseconds), cause and stimulus id."""
        return self.now, cause, self.stimulus

    def fire(self, machine: str, source: str, row: str, target: str | None = None) -> str:
        """Move a state machine, such as "job", along a row, and return the new state. Transitions that were already
        allowed in this decision are not checked again.

        :param target: the new state, which is required if the row has several
        :raises NotAllowed: if the machine has no such transition
        """
        new_state = self._allowed.get((machine, source, row, target))
        if new_state is None:
            new_state = self._allowed[machine, source, row, target] = self.tables[machine].fire(source, row, target)
        return new_state

    # Slots

    def move_slot(self, slot: Slot, row: str, cause: str, target: str | None = None, evidence: int = 0) -> None:
        """Move a slot along a row, together with its claim and match. (``startd.transitions`` performs the actions.)"""
        source, has_claim, has_job = slot.state_activity, slot.claim is not None, slot.activation is not None
        move = source, row, cause, target, has_claim, has_job, slot.destination
        new_pair = self._slot_moves.get(move)
        if new_pair is None:
            new_pair = self._slot_moves[move] = self._allow_move(*move)
        self.emit(SlotTransitioned(self.now, cause, self.stimulus, slot.name, row, source, new_pair, "", evidence))

    def _allow_move(
        self, source: str, row: str, cause: str, target: str | None, has_claim: bool, has_job: bool, destination: str
    ) -> str:
        """Check a move of a slot, its claim and its match, and return the slot's new state/activity."""
        new_pair = self.fire("slot", source, row, target)
        letter = self.tables["slot"].by_number[row].letter
        if letter not in ("", UNLETTERED):
            self.fire("letter", state_of(source), letter, state_of(new_pair))
        if has_claim:
            old_state, new_state = claim_state(source, has_job), claim_state(new_pair, has_job)
            # A state without a row means that a preempting claim takes over; that claim exists already.
            if old_state != new_state and new_state in ROWS_BY_STATE:
                self.fire("claim", old_state, ROWS_BY_STATE[new_state], new_state)
        old_state, new_state = match_state(source, destination), match_state(new_pair, destination)
        if old_state != new_state:
            end_row = "claim" if new_pair.startswith("Claimed") else void_row(cause)
            self.fire("match", old_state, "notify" if old_state == INITIAL_MATCH_STATE else end_row)
        return new_pair

    def move_claim(self, slot: Slot, row: str) -> None:
        """Move the slot's claim without the slot, when the claim's job starts or has ended."""
        if slot.claim is not None and slot.state == "Claimed":
            self.fire("claim", claim_state(slot.state_activity, slot.activation is not None), row)

    def move_match(self, slot: Slot, row: str) -> None:
        """Move the slot's match without the slot: before the match is notified, or in Backfill."""
        if slot.match_state == INITIAL_MATCH_STATE or slot.state == "Backfill":
            self.fire("match", slot.match_state, row)

    def record_evaluation(self, name: str, expression: str, value: str, read: Ad) -> int:
        """Record the value of an expression and the attribute values in ``read`` as evidence for a decision.

        Return the event's log position; 0, without an event, if the expression read nothing. Equal evidence is recorded
        only once per decision.
        """
        if not read:
            return 0
        key = (name, expression, value, tuple(read.items()))
        if key not in self._recorded:
            self.emit(EvaluationRecorded(*self.header("evaluated"), name, expression, value, read))
            self._recorded[key] = self._full_state.position
        return self._recorded[key]

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
        """Move jobs that all have the status ``source``, checking the table once."""
        target = self.fire("job", source, row)
        event = JobsTransitioned(*self.header(cause), cluster.id, procs, row, source, target, changes, evidence)
        self.emit(replace(event, reasons_kept=target in KEEPS_REASONS, holds=holds))


def ranges(procs: Sequence[int]) -> Procs:
    """Convert ascending process numbers to ranges."""
    if procs and procs[-1] - procs[0] == len(procs) - 1:
        return ((procs[0], procs[-1]),)
    if len(procs) >= MANY_RANGES:
        from ..state import many_jobs

        return many_jobs.ranges_of(procs)
    proc_ranges: list[tuple[int, int]] = []
    for proc in procs:
        if proc_ranges and proc_ranges[-1][1] == proc - 1:
            proc_ranges[-1] = (proc_ranges[-1][0], proc)
        else:
            proc_ranges.append((proc, proc))
    return tuple(proc_ranges)


def job_id(cluster: int, proc: int) -> str:
    return f"{cluster}.{proc}"


def check_super_user(draft: Draft[LogState], command: Command, action: str) -> None:
    """Check that the user owns the pool.

    :raises Refusal: if the user may not perform the action
    """
    owners = super_users(draft.state.settings)
    if command.user not in owners:
        names = ", ".join(sorted(owners))
        raise Refusal(f"permission denied to {action}: only the pool's owner may do that ({names})", DENIED)


def answer(draft: Draft[LogState], command: Command, request: str, arguments: str, value: object) -> None:
    """Record a request and its answer."""
    text = msgspec.json.encode(value).decode()
    draft.emit(RequestAnswered(*draft.header("answered"), command.user, request, arguments, text))
