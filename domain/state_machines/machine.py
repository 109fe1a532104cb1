"""Enforce a table by a machine of the ``transitions`` library: one for a table, never one for a slot or a job.

``fire`` is the live path: it pulls the row's trigger in the library's machine, which refuses all else; a step that the
library has taken once it takes always, and is not asked for again. ``legal`` is for bulk replay: it looks the same up.
``step`` is for claims and matches, which move with their slots: it looks up, and fires only what it does not find. A
machine is not thread-safe. The library takes longer to import than all of this package: it is imported when the first
machine is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from .claim import CLAIM, REQUESTED
from .dialects import dialect_named
from .drain import DRAIN, OPEN
from .job_rows import UNSUBMITTED
from .match import MADE, MATCH
from .rows import TransitionRow, states
from .slot_rows import INITIAL_PAIR

if TYPE_CHECKING:
    from transitions import EventData
    from transitions import Machine as Library


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
    """The library's model: it holds the current and the wanted state during one ``fire``."""

    __slots__ = ("state", "wanted")
    state: str
    wanted: str

    def leads_to_wanted(self, event: EventData) -> bool:
        """Tell whether a transition leads to the wanted target: the condition of each of the library's transitions."""
        return event.transition is not None and event.transition.dest == self.wanted


def _build(rows: Iterable[TransitionRow], every_state: Sequence[str], initial: str, name: str) -> Library:
    from transitions import Machine as Library

    built = Library(
        model=None, states=list(every_state), initial=initial, auto_transitions=False, name=name, send_event=True
    )
    for row in rows:
        for source, target in row.steps:
            built.add_transition(row.name, source, target, conditions="leads_to_wanted")
    return built


class StateMachine:
    """One table, enforced. ``initial`` is where every life begins, ``name`` what errors call the thing that moves.

    :raises ValueError: the table has a number twice, or a row from a state to itself and elsewhere
    """

    def __init__(self, rows: Sequence[TransitionRow], initial: str, name: str) -> None:
        self.rows = tuple(rows)
        self.initial = initial
        self.name = name
        self.states = states(self.rows, initial)
        names = {row.name: row.number for row in self.rows}
        if len(names) < len(self.rows):
            raise ValueError(f"{name}: a table has each number once; give the second row of a number another")
        more = (row for row in self.rows if len(row.steps) > 1)  # a row may be there for a step that stays, alone
        if loops := [row.number for row in more for source, target in row.steps if source == target]:
            raise ValueError(f"{name}: row {loops[0]} leads from a state to itself; a row leads elsewhere")
        from transitions import MachineError

        self._invalid = MachineError
        self._library = _build(self.rows, self.states, initial, name)
        self._taken: dict[tuple[str, str, str | None], str] = {}
        self._triggers: dict[str, Any] = {names[name]: trigger for name, trigger in self._library.events.items()}
        self.lookup: dict[tuple[str, str], tuple[str, ...]] = {
            (source, number): tuple(step.dest for step in steps)
            for number, trigger in self._triggers.items()
            for source, steps in trigger.transitions.items()
        }
        """(source, number) -> targets, as the library's machine has them."""

    def fire(self, source: str, number: str, target: str | None = None) -> str:
        """Pull the trigger of row ``number`` from ``source``, and return its target; ``target`` is needed if the row
        has several.

        :raises NotAllowed: the table has no such transition
        """
        taken = self._taken.get((source, number, target))
        if taken is not None:
            return taken
        self._taken[source, number, target] = reached = self._fire(source, number, target)
        return reached

    def _fire(self, source: str, number: str, target: str | None) -> str:
        targets = self.lookup.get((source, number), ())
        if target is None and len(targets) == 1:
            target = targets[0]
        trigger = self._triggers.get(number)
        if trigger is None or target is None or source not in self._library.states:
            raise self._refusal(source, number, target)
        model = _Model()  # not shared: pools in several threads have one machine
        model.state, model.wanted = source, target
        try:
            moved = trigger.trigger(model)
        except self._invalid:
            moved = False
        if not moved:
            raise self._refusal(source, number, target)
        return model.state

    def step(self, source: str, number: str, target: str | None = None) -> str:
        """Do the same as ``fire`` by the lookup, for frequent steps. The library's machine refuses the rest."""
        targets = self.lookup.get((source, number), ())
        if target in targets:
            return target
        return targets[0] if target is None and len(targets) == 1 else self.fire(source, number, target)

    def legal(self, source: str, number: str, target: str) -> bool:
        """Tell whether ``fire`` would allow it."""
        return target in self.lookup.get((source, number), ())

    def allowed(self, source: str) -> dict[str, tuple[str, ...]]:
        """Return the targets of every row that leads on from ``source``, by number."""
        return {number: targets for (place, number), targets in self.lookup.items() if place == source}

    def without(self, number: str) -> StateMachine:
        """Return this machine without one row.

        :raises KeyError: it has no row of this number
        """
        if number not in self._triggers:
            raise KeyError(f"{self.name}: there is no row {number}")
        return StateMachine([row for row in self.rows if row.number != number], self.initial, self.name)

    def _refusal(self, source: str, number: str, target: str | None) -> NotAllowed:
        onward = "; ".join(f"{n} -> {' or '.join(t)}" for n, t in self.allowed(source).items()) or "nothing"
        from_here = f"from {source} there is: {onward}"
        targets = self.lookup.get((source, number), ())
        if source not in self._library.states:
            rule, way_out = f"{source!r} is no state of this table", f"its states are {', '.join(self.states)}"
        elif number not in self._triggers:
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
