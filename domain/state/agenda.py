"""Schedules of timed actions: when a machine, cluster or job (the agenda's keys) is due.

The state owns its agendas (``State.agendas``), so that a copy of the state makes the same decisions. Because no event
records an agenda, a state that was folded from a log has none until ``decide.agenda.plan_agendas`` computes them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from .caches import Caches

Key = TypeVar("Key", int, str, tuple[int, int])

_LONGEST: Final = 100  #: outdated entries that are kept in any case


class Agenda(Generic[Key]):
    """Keys, each with the time at which it is due, in microseconds."""

    __slots__ = ("_instants", "_queue")

    def __init__(self) -> None:
        self._instants: dict[Key, int] = {}
        self._queue: list[tuple[int, Key]] = []
        """A heap of all scheduled times. Outdated entries are dropped when they reach the top, or are too many."""

    def __iter__(self) -> Iterator[Key]:
        return iter(self._instants)

    def reset(self) -> None:
        """Remove all keys."""
        self._instants.clear()
        self._queue.clear()

    def schedule(self, key: Key, due: int | None) -> None:
        """Make a key due at this time only; None removes the key."""
        if due is None:
            self._instants.pop(key, None)
        elif self._instants.get(key) != due:
            self._instants[key] = due
            heapq.heappush(self._queue, (due, key))
            if len(self._queue) > _LONGEST + 2 * len(self._instants):
                self._queue = [(due, key) for key, due in self._instants.items()]
                heapq.heapify(self._queue)

    def schedule_earlier(self, key: Key, due: int | None) -> None:
        """Make a key due at this time, unless it is already due earlier."""
        if due is not None and due < self._instants.get(key, due + 1):
            self.schedule(key, due)

    def next_due(self) -> int | None:
        """Return the earliest time at which a key is due, or None if there is none."""
        queue = self._queue
        while queue and self._instants.get(queue[0][1]) != queue[0][0]:
            heapq.heappop(queue)
        return queue[0][0] if queue else None

    def due_keys(self, now: int) -> list[Key]:
        """Return the sorted keys that are due. They stay due until they are rescheduled."""
        first = self.next_due()
        if first is None or first > now:
            return []
        return sorted(key for key, due in self._instants.items() if due <= now)

    def pop_due(self, now: int) -> list[Key]:
        """Remove the keys that are due, and return them sorted."""
        due_keys = []
        while (first := self.next_due()) is not None and first <= now:
            key = heapq.heappop(self._queue)[1]
            del self._instants[key]
            due_keys.append(key)
        return sorted(due_keys)


class Agendas(Caches):
    """A state's agendas, one object per class of agenda."""

    __slots__ = ()

    def are_used(self) -> bool:
        """Return True if there is an agenda: the pool is running, rather than only being folded from a log."""
        return bool(self._by_kind)
