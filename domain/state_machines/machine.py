"""Enforce a table by a machine of the ``transitions`` library: one for a table, never one for a slot or a job.

``fire`` is the live path: it pulls a trigger in the library's machine, which refuses all else. A trigger is a row and
one of its targets, so that the library needs no condition to choose between targets, which would double the cost of a
transition. ``legal`` is for bulk replay: it looks up what the library's machine allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from .claim import CLAIM, REQUESTED
from .dialects import dialect_named
from .drain import DRAIN, OPEN
from .job_rows import UNSUBMITTED
from .match import MADE, MATCH
from .rows import TransitionRow, states
from .slot_rows import INITIAL_PAIR, LETTERED, state

if TYPE_CHECKING:
    from transitions import Event


class NotAllowed(Exception):
    """The table has no such transition."""

    def __init__(self, thing: str, source: str, number: str, target: str | None, rule: str, way_out: str) -> None:
        step = source if target is None else f"{source} -> {target}"
        super().__init__(f"{thing}: row {number} does not allow {step}: {rule}; {way_out}")
        self.thing = thing
        self.source = source
        self.number = number
        self.target = target


class _Model:
    """The library's model: it holds the state during one ``fire``."""

    __slots__ = ("state",)
    state: str


class StateMachine:
    """One table, enforced. ``initial`` is where every life begins, ``name`` what errors call the thing that moves.

    :raises ValueError: the table has a number twice, or a row from a state to itself and elsewhere
    """

    def __init__(self, rows: Sequence[TransitionRow], initial: str, name: str) -> None:
        self.rows = tuple(rows)
        self.initial = initial
        self.name = name
        self.states = states(self.rows, initial)
        self.by_number = {row.number: row for row in self.rows}
        if len(self.by_number) < len(self.rows):
            raise ValueError(f"{name}: a table has each number once; give the second row of a number another")
        more = (row for row in self.rows if len(row.steps) > 1)  # a row may be there for a step that stays, alone
        if loops := [row.number for row in more for source, target in row.steps if source == target]:
            raise ValueError(f"{name}: row {loops[0]} leads from a state to itself; a row leads elsewhere")
        from .library_machine import LibraryMachine, MachineError

        self._invalid = (MachineError, ValueError)  # ValueError: of a state that the library does not know
        library = LibraryMachine(
            model=None, states=list(self.states), initial=initial, auto_transitions=False, name=name
        )
        self._triggers: dict[tuple[str, str | None], Event] = {}
        self.lookup: dict[tuple[str, str], tuple[str, ...]] = {}
        """(source, number) -> targets, as the library's machine has them: for bulk replay."""
        for row in self.rows:
            for target in row.targets:
                pulled = row.name if len(row.targets) == 1 else f"{row.name} to {target}"
                library.add_transition(pulled, list(row.sources), target)
                self._triggers[row.number, target] = trigger = library.events[pulled]
                if len(row.targets) == 1:
                    self._triggers[row.number, None] = trigger
                for source, (step,) in trigger.transitions.items():
                    self.lookup[source, row.number] = (*self.lookup.get((source, row.number), ()), step.dest or source)

    def fire(self, source: str, number: str, target: str | None = None) -> str:
        """Pull the trigger of row ``number`` from ``source``, and return its target; ``target`` is needed if the row
        has several.

        :raises NotAllowed: the table has no such transition
        """
        trigger = self._triggers.get((number, target))
        if trigger is None:
            raise self._refusal(source, number, target)
        model = _Model()  # not shared: pools in several threads have one machine
        model.state = source
        try:
            trigger.trigger(model)
        except self._invalid:
            raise self._refusal(source, number, target) from None
        return model.state

    def legal(self, source: str, number: str, target: str | None = None) -> bool:
        """Return True if ``fire`` allows it; without ``target``, to any target."""
        targets = self.lookup.get((source, number), ())
        return bool(targets) if target is None else target in targets

    def allowed(self, source: str) -> dict[str, tuple[str, ...]]:
        """Return the targets of every row that leads on from ``source``, by number."""
        return {number: targets for (place, number), targets in self.lookup.items() if place == source}

    def without(self, number: str) -> StateMachine:
        """Return this machine without one row.

        :raises KeyError: it has no row of this number
        """
        if number not in self.by_number:
            raise KeyError(f"{self.name}: there is no row {number}")
        return StateMachine([row for row in self.rows if row.number != number], self.initial, self.name)

    def _refusal(self, source: str, number: str, target: str | None) -> NotAllowed:
        onward = "; ".join(f"{n} -> {' or '.join(t)}" for n, t in self.allowed(source).items()) or "nothing"
        from_here = f"from {source} there is: {onward}"
        targets = self.lookup.get((source, number), ())
        if source not in self.states:
            rule, way_out = f"{source!r} is no state of this table", f"its states are {', '.join(self.states)}"
        elif number not in self.by_number:
            rule, way_out = "the table has no such row", from_here
        elif not targets:
            rule, way_out = f"the row does not begin in {source}", from_here
        elif target is None:
            rule, way_out = "the row has several targets", f"say which: {' or '.join(targets)}"
        else:
            rule, way_out = f"from {source} the row leads to {' or '.join(targets)}", from_here
        return NotAllowed(self.name, source, number, target, rule, way_out)


@cache
def slot_machine(dialect: str) -> StateMachine:
    """Return the machine of all slots under a dialect; raise ``UnknownDialectError`` for an unknown one."""
    return StateMachine(dialect_named(dialect).slot_rows, INITIAL_PAIR, f"slot ({dialect})")


@cache
def job_machine(dialect: str) -> StateMachine:
    """Return the machine of all jobs under a dialect; raise ``UnknownDialectError`` for an unknown one."""
    return StateMachine(dialect_named(dialect).job_rows, UNSUBMITTED, f"job ({dialect})")


@cache
def claim_machine() -> StateMachine:
    return StateMachine(CLAIM, REQUESTED, "claim")


@cache
def match_machine() -> StateMachine:
    return StateMachine(MATCH, MADE, "match")


@cache
def drain_machine() -> StateMachine:
    return StateMachine(DRAIN, OPEN, "drain")


@cache
def letter_machine() -> StateMachine:
    """Return the machine of the letters: what all slots do, as seen from the states alone."""
    return StateMachine(LETTERED, state(INITIAL_PAIR), "slot, by letter")


MACHINES: Final[Mapping[str, Callable[[str], StateMachine]]] = {
    "slot": slot_machine,
    "letter": lambda _: letter_machine(),
    "job": job_machine,
    "claim": lambda _: claim_machine(),
    "match": lambda _: match_machine(),
    "drain": lambda _: drain_machine(),
}
"""The machine of each name under a dialect."""
