"""Enforce a table with a machine of the ``transitions`` library. All slots, or all jobs, share one machine.

A running pool calls ``fire``, which fires a trigger of the library's machine; the library rejects all transitions that
are not in the table. Each target of a row has its own trigger, because conditions that choose between targets would
double the time per transition. Bulk replay calls ``allows``, which looks up what the library's machine allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from .claim import CLAIM, INITIAL_CLAIM_STATE
from .dialects import dialect_named
from .drain import DRAIN, INITIAL_DRAIN_STATE
from .had import HAD, PRE
from .job_rows import UNSUBMITTED
from .match import INITIAL_MATCH_STATE, MATCH
from .rows import TransitionRow, states
from .slot_rows import INITIAL_PAIR, LETTERED, state

if TYPE_CHECKING:
    from transitions import Event


class NotAllowed(Exception):
    """A transition that the table does not allow."""

    def __init__(self, thing: str, source: str, number: str, target: str | None, rule: str, hint: str) -> None:
        step = source if target is None else f"{source} -> {target}"
        super().__init__(f"{thing}: row {number} does not allow {step}: {rule}; {hint}")
        self.thing = thing
        self.source = source
        self.number = number
        self.target = target


class _Model:
    """The library's model, which holds the state during one ``fire``."""

    __slots__ = ("state",)
    state: str


class StateMachine:
    """Enforces one table. ``initial`` is the initial state; ``name`` is the machine's name in errors.

    :raises ValueError: if two rows have the same number, or a row with several steps leads from a state to itself
    """

    def __init__(self, rows: Sequence[TransitionRow], initial: str, name: str) -> None:
        self.rows = tuple(rows)
        self.initial = initial
        self.name = name
        self.states = states(self.rows, initial)
        self.by_number = {row.number: row for row in self.rows}
        if len(self.by_number) < len(self.rows):
            raise ValueError(f"{name}: two rows have the same number; give one of them another number")
        several = (row for row in self.rows if len(row.steps) > 1)  # a row with only one step may lead to its own state
        if loops := [row.number for row in several for source, target in row.steps if source == target]:
            raise ValueError(f"{name}: row {loops[0]} leads from a state to itself; only a row with one step may")
        from .library_machine import LibraryMachine, MachineError

        self._invalid = (MachineError, ValueError)  # ValueError: a state unknown to the library
        library = LibraryMachine(
            model=None, states=list(self.states), initial=initial, auto_transitions=False, name=name
        )
        self._triggers: dict[tuple[str, str | None], Event] = {}
        self.lookup: dict[tuple[str, str], tuple[str, ...]] = {}
        """The targets that the library's machine allows, by (source, number), for bulk replay."""
        for row in self.rows:
            for target in row.targets:
                trigger_name = row.name if len(row.targets) == 1 else f"{row.name} to {target}"
                library.add_transition(trigger_name, list(row.sources), target)
                self._triggers[row.number, target] = trigger = library.events[trigger_name]
                if len(row.targets) == 1:
                    self._triggers[row.number, None] = trigger
                for source, (step,) in trigger.transitions.items():
                    self.lookup[source, row.number] = (*self.lookup.get((source, row.number), ()), step.dest or source)

    def fire(self, source: str, number: str, target: str | None = None) -> str:
        """Move along row ``number`` from ``source``, and return the target; ``target`` is required if the row has
        several targets.

        :raises NotAllowed: if the table has no such transition
        """
        trigger = self._triggers.get((number, target))
        if trigger is None:
            raise self._refusal(source, number, target)
        model = _Model()  # not shared, because pools in several threads use the same machine
        model.state = source
        try:
            trigger.trigger(model)
        except self._invalid:
            raise self._refusal(source, number, target) from None
        return model.state

    def allows(self, source: str, number: str, target: str | None = None) -> bool:
        """Return True if ``fire`` allows this transition; if ``target`` is None, to any target."""
        targets = self.lookup.get((source, number), ())
        return bool(targets) if target is None else target in targets

    def targets_by_row(self, source: str) -> dict[str, tuple[str, ...]]:
        """Return the targets of every row from ``source``, by the row's number."""
        return {number: targets for (row_source, number), targets in self.lookup.items() if row_source == source}

    def without_row(self, number: str) -> StateMachine:
        """Return a copy of this machine without one row.

        :raises KeyError: if there is no row with this number
        """
        if number not in self.by_number:
            raise KeyError(f"{self.name}: there is no row {number}")
        return StateMachine([row for row in self.rows if row.number != number], self.initial, self.name)

    def _refusal(self, source: str, number: str, target: str | None) -> NotAllowed:
        rows = "; ".join(f"{n} -> {' or '.join(t)}" for n, t in self.targets_by_row(source).items()) or "none"
        rows_from_source = f"rows from {source}: {rows}"
        targets = self.lookup.get((source, number), ())
        if source not in self.states:
            rule, hint = f"{source!r} is not a state of this table", f"its states are {', '.join(self.states)}"
        elif number not in self.by_number:
            rule, hint = "the table has no such row", rows_from_source
        elif not targets:
            rule, hint = f"the row does not begin in {source}", rows_from_source
        elif target is None:
            rule, hint = "the row has several targets", f"choose {' or '.join(targets)}"
        else:
            rule, hint = f"from {source} the row leads to {' or '.join(targets)}", rows_from_source
        return NotAllowed(self.name, source, number, target, rule, hint)


@cache
def slot_machine(dialect: str) -> StateMachine:
    """Return the state machine of all slots in a dialect; raise ``UnknownDialectError`` for an unknown dialect."""
    return StateMachine(dialect_named(dialect).slot_rows, INITIAL_PAIR, f"slot ({dialect})")


@cache
def job_machine(dialect: str) -> StateMachine:
    """Return the state machine of all jobs in a dialect; raise ``UnknownDialectError`` for an unknown dialect."""
    return StateMachine(dialect_named(dialect).job_rows, UNSUBMITTED, f"job ({dialect})")


@cache
def claim_machine() -> StateMachine:
    return StateMachine(CLAIM, INITIAL_CLAIM_STATE, "claim")


@cache
def match_machine() -> StateMachine:
    return StateMachine(MATCH, INITIAL_MATCH_STATE, "match")


@cache
def drain_machine() -> StateMachine:
    return StateMachine(DRAIN, INITIAL_DRAIN_STATE, "drain")


@cache
def had_machine() -> StateMachine:
    return StateMachine(HAD, PRE, "had")


@cache
def letter_machine() -> StateMachine:
    """Return the machine of the lettered transitions, which are between states of slots, without activities."""
    return StateMachine(LETTERED, state(INITIAL_PAIR), "slot, by letter")


MACHINES: Final[Mapping[str, Callable[[str], StateMachine]]] = {
    "slot": slot_machine,
    "letter": lambda _: letter_machine(),
    "job": job_machine,
    "claim": lambda _: claim_machine(),
    "match": lambda _: match_machine(),
    "drain": lambda _: drain_machine(),
    "had": lambda _: had_machine(),
}
"""The functions that return a dialect's machine of each kind."""
