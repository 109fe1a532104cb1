"""Replay a log: the state of its pool at any time, one event after the other, and your own read models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice
from math import isfinite
from typing import Protocol, Self, TypeVar

from ...domain.events import Event
from ...domain.fold.evolve import fold
from ...domain.ports.log import EventStore, LogError
from ...domain.state.state import State
from ..forensics.imported_log import is_imported
from ..narration.formatting import EVER
from ..runs.of_log import pool_events


class LogProjection(Protocol):
    """Your own read model: it is created empty, and folds the events of a log in order.

    >>> class Ended:
    ...     def __init__(self) -> None:
    ...         self.jobs = 0
    ...     def fold(self, position: int, event: events.Event) -> None:
    ...         self.jobs += isinstance(event, events.JobExited)
    """

    def fold(self, position: int, event: Event, /) -> None:
        """Fold the event at this position of the log."""


P = TypeVar("P", bound=LogProjection)


class StateCache(Protocol):
    """Snapshots of a pool's state, so that a replay need not begin at the log's first event."""

    def load(self, log: EventStore, last: int) -> State:
        """Return the latest state up to position ``last`` that agrees with the log, or an empty state."""

    def due(self, log: EventStore, after: int) -> int:
        """Return the next position after ``after`` at which the cache can store a state."""

    def store(self, log: EventStore, state: State) -> None:
        """Store a state at a position that `due` returned."""


class ReplayLog(Protocol):
    """A log that can be replayed: a `Log` or a `Pool`."""

    @property
    def _log(self) -> EventStore:
        """The log's events."""

    @property
    def _snapshots(self) -> StateCache | None:
        """The snapshots of its states, if it can have any."""


class Replay:
    """A log at one position, initially before its first event. `to`, `to_position` and `step` change the position.

    >>> replay = Replay(log).to(1_800_000_060)
    >>> [(slot.name, slot.state) for slot in replay.state.slots.values()]
    [('slot1@node1', 'Unclaimed'), ('slot1_1@node1', 'Claimed')]

    The events of an imported log are replayed in chronological order, as a pool's own events about its runs and slots,
    and numbered in this order. The records of an HTCondor pool are not sufficient for a `state`, but for projections.

    :param log: a `Log` or a `Pool`
    :param projections: your own read models' classes (or functions that return a new one); `projection` returns the
        read model at the replay's position
    """

    def __init__(self, log: ReplayLog, *projections: Callable[[], LogProjection]) -> None:
        self._source, self._kinds = log, projections
        self._imported = list(pool_events(log._log)) if is_imported(log._log) else None
        self._begin(State())

    def _begin(self, state: State) -> None:
        self._state, self.position, self.at = state, state.position, state.at
        self._projections = [(kind, kind()) for kind in self._kinds]
        self._next: Iterator[tuple[int, Event]] | None = None

    @property
    def imported(self) -> bool:
        """True if the log was imported from an HTCondor pool's records."""
        return self._imported is not None

    @property
    def state(self) -> State:
        """The pool's state at this position. The next step changes it: copy what you want to keep.

        :raises LogError: the log was imported
        """
        if self._imported is not None:
            raise LogError(
                "the log was imported, and an HTCondor pool's records do not contain its whole state; give `Replay` a "
                "projection, or read `Log.jobs` and `Log.slots` with `at`"
            )
        return self._state

    def projection(self, kind: Callable[[], P]) -> P:
        """Return a read model at this position.

        >>> Replay(log, Ended).to(1_800_000_660).projection(Ended).jobs
        2

        :param kind: one of the classes that the replay was created with
        :raises LookupError: the replay was created without it
        """
        for candidate, projection in self._projections:
            if candidate is kind:
                return projection  # type: ignore[return-value]  # `kind` created it
        raise LookupError(f"{kind!r} is not a projection of this replay; pass it to `Replay(log, ...)`")

    def to(self, time: datetime | float) -> Self:
        """Go to the last event at or before a time, forwards or backwards, and return the replay. Before the log's
        first event, the state and the projections are empty.

        :param time: seconds since the epoch, or a datetime with a time zone
        :raises ValueError: the time is invalid
        """
        return self.to_position(self._last_position(_microseconds(time)))

    def to_position(self, position: int) -> Self:
        """Go to the state after the event at a position, forwards or backwards, and return the replay. A position after
        the end of the log means its end.

        :raises ValueError: the position is negative
        """
        if position < 0:
            raise ValueError(f"position {position} does not exist; the first event has position 1, and 0 is before it")
        store = self._source._log
        last = min(position, store.head.position if self._imported is None else len(self._imported))
        snapshots = None if self._kinds or self._imported is not None else self._source._snapshots
        if last < self.position:
            self._begin(State())
        if snapshots is None:
            self._fold(self._events(last))
            return self
        stored = snapshots.load(store, last)
        if stored.position > self.position:
            self._begin(stored)
        while self.position < last:
            due = snapshots.due(store, self.position)
            self._fold(self._events(min(due, last)))
            if self.position == due:
                snapshots.store(store, self._state)
        return self

    def step(self) -> tuple[int, Event] | None:
        """Fold the next event, and return its position and the event; None at the end of the log.

        >>> replay.step()
        (14, JobActivated(...))
        """
        if self._next is None:
            self._next = self._events(EVER)
        following = next(self._next, None)
        if following is None:
            self._next = None  # the log may grow
            return None
        reader, self._next = self._next, None
        self._fold((following,))
        self._next = reader
        return following

    def __iter__(self) -> Iterator[tuple[int, Event]]:
        """Yield the remaining events, each after it was folded."""
        while (following := self.step()) is not None:
            yield following

    def _events(self, last: int) -> Iterator[tuple[int, Event]]:
        count = None if last == EVER else max(last - self.position, 0)
        if self._imported is not None:
            return islice(self._imported, self.position, None if count is None else self.position + count)
        return self._source._log.read(self.position, count)

    def _fold(self, events: Iterable[tuple[int, Event]]) -> None:
        self._next = None
        if self._imported is None and not self._projections:
            fold(events, self._state)
            self.position, self.at = self._state.position, self._state.at
            return
        for position, event in events:
            if self._imported is None:
                fold(((position, event),), self._state)
            for _, projection in self._projections:
                projection.fold(position, event)
            self.position, self.at = position, event.at

    def _last_position(self, at: int) -> int:
        if self._imported is not None:
            return sum(event.at <= at for _, event in self._imported)
        return self._source._log.position_at(at)


def _microseconds(time: datetime | float) -> int:
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError(f"{time} has no time zone; give one, for example datetime(2027, 1, 15, tzinfo=UTC)")
        time = time.timestamp()
    if isinstance(time, bool) or not isfinite(time):
        raise ValueError(f"{time!r} is not a time; give seconds since the epoch, or a datetime with a time zone")
    return round(time * 1_000_000)
