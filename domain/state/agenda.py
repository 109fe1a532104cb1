"""What is due by itself, and when: the one type behind the schedules of a pool.

An agenda has an instant for each key. What it says follows from the state, and from when the same was asked last. The
state owns its agendas (``State.agendas``): a copy of the state decides as the state does. They are no part of what the
log says. A state that was folded from a log has none, and ``decide.agenda.begin`` plans them from what was folded.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

from .caches import Caches

Key = TypeVar("Key", int, str, tuple[int, int])


class Agenda(Generic[Key]):
    """Keys with the instants at which they are due, one for each. Instants in microseconds."""

    __slots__ = ("_instants", "_queue")

    def __init__(self) -> None:
        self._instants: dict[Key, int] = {}
        self._queue: list[tuple[int, Key]] = []
        """A heap of all instants that were noted; those that hold no longer are dropped when they come to its top."""

    def __iter__(self) -> Iterator[Key]:
        return iter(self._instants)

    def reset(self) -> None:
        """Forget everything."""
        self._instants.clear()
        self._queue.clear()

    def note(self, key: Key, due: int | None) -> None:
        """Let a key be due at this instant, and at no other; None: at none."""
        if due is None:
            self._instants.pop(key, None)
        elif self._instants.get(key) != due:
            self._instants[key] = due
            heapq.heappush(self._queue, (due, key))

    def note_earlier(self, key: Key, due: int | None) -> None:
        """Let a key be due at this instant, unless it is due before."""
        if due is not None and due < self._instants.get(key, due + 1):
            self.note(key, due)

    def next(self) -> int | None:
        """Return the first instant at which a key is due; None: none is."""
        queue = self._queue
        while queue and self._instants.get(queue[0][1]) != queue[0][0]:
            heapq.heappop(queue)
        return queue[0][0] if queue else None

    def due(self, now: int) -> list[Key]:
        """Return the keys that are due by now, in their order. They stay due until they are noted again."""
        first = self.next()
        if first is None or first > now:
            return []
        return sorted(key for key, due in self._instants.items() if due <= now)

    def take(self, now: int) -> list[Key]:
        """Return the keys that are due by now, in their order, and forget them."""
        taken = []
        while (first := self.next()) is not None and first <= now:
            key = heapq.heappop(self._queue)[1]
            del self._instants[key]
            taken.append(key)
        return sorted(taken)


class Agendas(Caches):
    """A state's agendas: one object of each class that plans something."""

    __slots__ = ()

    def are_used(self) -> bool:
        """Return True if anything is planned: the pool does something by itself, and is not only written to."""
        return bool(self._by_kind)
