"""Elect the active one of several managers, as condor_had does (``HADStateMachine``).

A manager decides once per interval, from the messages that it received since the last decision, and sends its state to
the others twice per interval. The state itself is in the manager's log, so a decision that cannot be logged is made
again at the next interval.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct, field

from ..state_machines.had import ELECTION, LEADER, PASSIVE, PRE

MESSAGES_PER_INTERVAL: Final = 2


class HadPolicy(Struct, frozen=True):
    """The settings in force at one manager."""

    managers: tuple[str, ...]  #: the hosts in HAD_LIST, in descending order of priority
    index: int  #: this manager's place among them
    use_primary: bool
    interval: int  #: between decisions, in microseconds

    @property
    def number(self) -> int:
        """Return HAD_ID, which is greater for a manager with a higher priority."""
        return len(self.managers) - 1 - self.index

    @property
    def is_primary(self) -> bool:
        return self.use_primary and self.index == 0

    def host(self, number: int) -> str:
        """Return the manager with a HAD_ID."""
        return self.managers[len(self.managers) - 1 - number]


class Step(NamedTuple):
    """A transition that is due."""

    row: str
    cause: str
    number: int = -1  #: the HAD_ID of the other manager concerned; -1: none


def next_step(state: str, policy: HadPolicy, active: set[int], candidates: set[int]) -> Step | None:
    """Return the transition from a state, or None if the state remains.

    :param active: the HAD_IDs of the managers that said that they are active, since the last decision
    :param candidates: the HAD_IDs of the managers that take part in an election
    """
    if state == PRE:
        return Step("start", "had_started")
    if state == PASSIVE:
        if policy.is_primary:
            return Step("elect", "is_primary")
        return None if active else Step("elect", "no_active_manager")
    if state == ELECTION:
        if active and not policy.is_primary:
            return Step("concede", "active_manager_heard", max(active))
        if max(candidates, default=-1) > policy.number:
            return Step("concede", "higher_priority_heard", max(candidates))
        return Step("win", "elected")
    if state == LEADER and max(active, default=-1) > policy.number:
        return Step("yield", "higher_priority_heard", max(active))
    return None


class Election(Struct):
    """What a manager has heard. All times are microseconds on a clock that never jumps."""

    active: set[int] = field(default_factory=set)
    candidates: set[int] = field(default_factory=set)
    heard: dict[int, int] = field(default_factory=dict)  #: when each manager was last heard, by HAD_ID
    last_active: tuple[int, int] = -1, 0  #: the manager that last said that it is active, and when
    cycles: int = 0  #: since the start
    due: int = 0  #: when `cycle` must be called

    def receive(self, number: int, state: str, now: int) -> None:
        """Note a message of another manager."""
        self.heard[number] = now
        if state == LEADER:
            self.active.add(number)
            self.last_active = number, now
        elif state == ELECTION:
            self.candidates.add(number)

    def cycle(self, state: str, policy: HadPolicy, now: int) -> Step | None:
        """Return the transition that is due. The caller must then send the resulting state to the other managers, and
        call again when ``due`` is reached."""
        self.due = now + policy.interval // MESSAGES_PER_INTERVAL
        self.cycles += 1
        if (self.cycles - 1) % MESSAGES_PER_INTERVAL:
            return None
        step = next_step(state, policy, self.active, self.candidates)
        if step is None or step.row != "elect":  # the election counts what was heard before it
            self.active, self.candidates = set(), set()
        return step
