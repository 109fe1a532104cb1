"""A table of the submitters with idle jobs, updated from cycle to cycle.

Most waiting submitters have used nothing for a long time, and keep the best priority. A cycle reevaluates only the
submitters that changed since the last cycle (``_changed``, and the queue) and those whose priority decays. Each of the
others costs only one cell per column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from ..requests.idle_jobs import IdleQueues, idle_queues
from ..state.caches import Caches
from ..state.records import Submitter
from ..state.state import Manager
from .accounting import LEAST_PRIORITY
from .cycle_accounts import CycleSubmitter, CycleSubmitters
from .equal_priority_groups import EqualPriorityGroups, PriorityKey
from .group_demand import asked_by
from .slot_table import Places

_COLUMNS: Mapping[str, type] = {
    "since": np.int64,  # the submission number of the submitter's first cluster
    "born": np.int64,  # the submitter's index among all submitters
    "spelled": np.int64,  # the submitter's index by name
    "priority": np.float64, "using": np.float64, "floor": np.float64, "ceiling": np.float64,  # as of its account
    "group": np.int64,  # the index of the accounting group in the tree
    "idle": np.int64,  # the number of waiting jobs
    "asked": np.float64,  # the cores that these jobs request, if there are accounting groups
    "kind": np.int64,  # the autocluster number if all jobs have the same, else -1
    "kinds": np.int64,  # the number of autoclusters; -1: not known for some clusters
    "reason": np.int64,  # the number of the jobs' logged rejection reason (``number_of``); -1: not known
}  # fmt: skip
Column = npt.NDArray[Any]
_DELETED = 1 << 62
"""Added to the index of submitters with jobs but no record: they come last, in order of submission."""


class Rows:
    """A table of submitters. Each column is a separate array, because a cycle reads few columns, but all their rows."""

    def __init__(self, columns: dict[str, Column]) -> None:
        self._columns = columns

    @classmethod
    def empty(cls, size: int) -> Rows:
        return cls({name: np.zeros(size, kind) for name, kind in _COLUMNS.items()})

    def __len__(self) -> int:
        return len(self._columns["since"])

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def followed_by(self, count: int, changing: Iterable[str]) -> Rows:
        """Return these rows followed by ``count`` empty rows, with copies of the columns that will change."""
        if count:
            return self.of(slice(None), count)
        return Rows(self._columns | {name: self._columns[name].copy() for name in changing})

    def of(self, places: Places | slice, count: int) -> Rows:
        """Return the rows with these numbers, followed by ``count`` empty rows."""
        ends: dict[str, Column] = {name: np.zeros(count, kind) for name, kind in _COLUMNS.items()}
        return Rows({name: np.concatenate([self._columns[name][places], end]) for name, end in ends.items()})

    def put(self, at: int, user: CycleSubmitter) -> None:
        """Write a submitter's account into its row."""
        columns = self._columns
        columns["priority"][at], columns["using"][at] = user.priority, user.using
        columns["floor"][at], columns["ceiling"][at], columns["group"][at] = user.floor, user.ceiling, user.group


class WaitingSubmitters:
    """The waiting submitters of a state. ``rows`` and ``names`` have a row for each of them, and for some submitters
    that no longer wait (``since`` 0)."""

    def __init__(self) -> None:
        self._restart(-1, 0)

    def _restart(self, configured: int, restarts: int) -> None:
        self.rows = Rows.empty(0)
        self.names: list[str] = []
        self.at: dict[str, int] = {}
        self.moving: dict[str, None] = {}
        """Waiting submitters whose accounts change with time."""
        self.groups = EqualPriorityGroups()
        """The waiting submitters, grouped by equal priority."""
        self.using: dict[str, None] = {}
        """Submitters that have slots, or used slots since their priority was logged."""
        self._positions: dict[str, tuple[int, Submitter]] = {}
        self._numbers: dict[int, tuple[int, tuple[object, ...]]] = {}
        self._numbered = count()
        self._in_turn: Places | None = None
        self._spelled = 0
        self._cursors = -1, -1
        self._configured, self._restarts = configured, restarts

    # Updates

    def follow(self, state: Manager, queues: IdleQueues, accounts: CycleSubmitters) -> None:
        """Update the table to the state; ``accounts`` are current."""
        changed = self._changed(state)
        if changed is None or (self._configured, self._restarts) != (state.configured, queues.restarts):
            self._restart(state.configured, queues.restarts)
            changed = dict.fromkeys((*state.submitters, *(name for _, name in queues.submitters_in_order)))
        self._cursors = state.submitter_changes.total, state.rejection_changes.total
        self._number(state, changed)
        changed |= queues.changed_submitters
        queues.changed_submitters.clear()
        for name in changed:
            self._evaluate(name, state.submitters.get(name), queues, accounts)
        if self._spelled < len(self.names):
            self._spell()
        for name in self.moving:
            self.rows.put(self.at[name], accounts.of(name))

    def _changed(self, state: Manager) -> dict[str, None] | None:
        """Return the submitters whose record or rejection reasons may have changed since the last update; None if that
        is unknown."""
        last_change, last_rejection = self._cursors
        changed = state.submitter_changes.since(last_change)
        rejected = state.rejection_changes.since(last_rejection)
        if changed is None or rejected is None:
            return None
        for number, _ in rejected:
            cluster = state.clusters.get(number)
            if cluster is not None:
                changed[cluster.submitter] = None
        return changed

    def _number(self, state: Manager, changed: Iterable[str]) -> None:
        """Number the submitters in the order of their records, where new ones come last."""
        known, records, fresh = self._positions, state.submitters, 0
        for name in changed:
            record, before = records.get(name), known.get(name)
            if before is None:
                fresh += record is not None
            elif before[1] is not record:  # the record was deleted and created again
                fresh = len(records)
                break
        if fresh < len(records):
            last = [*islice(reversed(records), fresh)][::-1]
            following = len(known)
        else:
            known.clear()
            last, following = list(records), 0
            born = {name: number for number, name in enumerate(last)}
            for name, at in self.at.items():
                self.rows["born"][at] = born.get(name, _DELETED + self.rows["since"][at])
        known.update((name, (number, records[name])) for number, name in enumerate(last, following))

    def _evaluate(self, name: str, record: Submitter | None, queues: IdleQueues, accounts: CycleSubmitters) -> None:
        """Update a submitter's row."""
        uses = record is not None and (
            record.slots > 0 or record.weighted_in_use != 0 or record.weighted_usage != record.usage_accounted
        )
        _update_set(self.using, name, uses)
        queue = queues.by_submitter.get(name)
        since = 0 if queue is None else queue.first_submission
        at = self.at.get(name)
        if at is None:
            if not since:
                return
            at = self._add(name)
        rows = self.rows
        if rows["since"][at] != since:
            rows["since"][at], self._in_turn = since, None
        waits = queue is not None and since > 0
        _update_set(self.moving, name, waits and record is not None and (uses or _changes_with_time(record)))
        self.groups.leave(name)
        if queue is None or not waits:
            return
        kinds = list(queue.groups)
        rows["born"][at] = self._positions[name][0] if name in self._positions else _DELETED + since
        rows["idle"][at] = queue.idle
        rows["asked"][at] = asked_by(queue, accounts.state) if accounts.rules.tree.divides else 0.0
        rows["kind"][at] = kinds[0] if len(kinds) == 1 else -1
        rows["kinds"][at] = len(kinds) if min(kinds) >= 0 else -1
        rows["reason"][at] = -1
        account = accounts.of(name)
        if name not in self.moving:
            rows.put(at, account)
        if name in self.moving or account.floor > 0 or min(kinds) < 0:
            self.groups.alone[name] = None
        else:
            kind, key = int(rows["kind"][at]), PriorityKey(account.priority, account.using, account.ceiling)
            self.groups.join(name, key, queue.idle, len(kinds), kind)

    def _add(self, name: str) -> int:
        if len(self.names) == len(self.rows):
            self._make_room()
        at = self.at[name] = len(self.names)
        self.names.append(name)
        return at

    def _make_room(self) -> None:
        """Drop submitters that no longer wait, and double the capacity."""
        rows = np.flatnonzero(self.rows["since"])
        self.rows, self._in_turn = self.rows.of(rows, len(rows) + 16), None
        self.names = [self.names[at] for at in rows.tolist()]
        self.at = {name: at for at, name in enumerate(self.names)}
        self._spelled = min(self._spelled, len(self.names))

    def _spell(self) -> None:
        """Sort the submitters by name again after adding new ones."""
        order = sorted(range(len(self.names)), key=self.names.__getitem__)
        self.rows["spelled"][order] = np.arange(len(order))
        self._spelled = len(self.names)

    # Queries

    def in_turn(self) -> Places:
        """Return the rows of the waiting submitters, by the submission of their first clusters."""
        if self._in_turn is None:
            rows = np.flatnonzero(self.rows["since"])
            self._in_turn = rows[np.argsort(self.rows["since"][rows], kind="stable")]
        return self._in_turn

    def aging(self, queues: IdleQueues) -> list[str]:
        """Return the submitters whose logged priority may be out of date, in the order of their records."""
        return self.by_record({*self.using, *self.moving, *queues.local_cluster_counts})

    def waits(self, name: str) -> bool:
        at = self.at.get(name)
        return at is not None and bool(self.rows["since"][at])

    def by_record(self, names: Iterable[str]) -> list[str]:
        """Sort these submitters by the order of their records; drop submitters that have none."""
        positions = self._positions
        return sorted((name for name in names if name in positions), key=lambda name: positions[name][0])

    def note_logged(self, place: int, number: int) -> None:
        """Record that the log contains the reason with this number for the jobs of the submitter in this row."""
        self.rows["reason"][place] = number
        self.groups.note_logged(self.names[place])

    def number_of(self, kind: int, facts: tuple[object, ...]) -> int:
        """Return a number for the reason of a kind of jobs. It stays the same while the facts do."""
        known = self._numbers.get(kind)
        if known is None or known[1] != facts:
            known = self._numbers[kind] = next(self._numbered), facts
        return known[0]


def _update_set(names: dict[str, None], name: str, is_in: bool) -> None:
    if is_in:
        names[name] = None
    else:
        names.pop(name, None)


def _changes_with_time(record: Submitter) -> bool:
    """Check whether time alone changes the share of a submitter that uses nothing."""
    return record.priority != LEAST_PRIORITY or bool(record.leases)


def waiting_submitters(state: Manager, caches: Caches, accounts: CycleSubmitters) -> WaitingSubmitters:
    """Return the submitters in this state that have idle jobs."""
    waiting = caches.of(WaitingSubmitters)
    waiting.follow(state, idle_queues(state, caches), accounts)
    return waiting
