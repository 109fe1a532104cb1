"""A table of the submitters with idle jobs, which each cycle updates.

Most waiting submitters have used nothing for a long time, and keep the best priority. So a cycle evaluates only the
submitters that changed since the last cycle (``_changed``, and the queue) and those whose priority decays. Every other
submitter costs only one cell per column.
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
from .group_demand import requested_cores
from .slot_table import RowNumbers

_COLUMNS: Mapping[str, type] = {
    "first_submission": np.int64,  # the submission number of the submitter's first cluster
    "record_index": np.int64,  # the submitter's index among all submitters
    "name_order": np.int64,  # the submitter's index by name
    "priority": np.float64, "using": np.float64, "floor": np.float64, "ceiling": np.float64,  # as of its account
    "group": np.int64,  # the index of the accounting group in the tree
    "idle": np.int64,  # the number of waiting jobs
    "requested_cores": np.float64,  # the cores that these jobs request, if there are accounting groups
    "autocluster": np.int64,  # the autocluster number if all jobs have the same, else -1
    "autocluster_count": np.int64,  # the number of autoclusters; -1: not known for some clusters
    "reason": np.int64,  # the number of the jobs' logged rejection reason (``reason_number``); -1: not known
}  # fmt: skip
Column = npt.NDArray[Any]
_DELETED = 1 << 62
"""Added to the index of submitters with jobs but no record: they come last, in order of submission."""


class SubmitterTable:
    """A table of submitters. Each column is a separate array, because a cycle reads all rows of a few columns."""

    def __init__(self, columns: dict[str, Column]) -> None:
        self._columns = columns

    @classmethod
    def empty(cls, size: int) -> SubmitterTable:
        return cls({name: np.zeros(size, dtype) for name, dtype in _COLUMNS.items()})

    def __len__(self) -> int:
        return len(self._columns["first_submission"])

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def with_empty_rows(self, count: int, changing: Iterable[str]) -> SubmitterTable:
        """Return these rows followed by ``count`` empty rows, with copies of the columns that will change."""
        if count:
            return self.select_rows(slice(None), count)
        return SubmitterTable(self._columns | {name: self._columns[name].copy() for name in changing})

    def select_rows(self, rows: RowNumbers | slice, count: int) -> SubmitterTable:
        """Return the rows with these numbers, followed by ``count`` empty rows."""
        ends: dict[str, Column] = {name: np.zeros(count, dtype) for name, dtype in _COLUMNS.items()}
        return SubmitterTable({name: np.concatenate([self._columns[name][rows], end]) for name, end in ends.items()})

    def write_account(self, row: int, user: CycleSubmitter) -> None:
        """Write a submitter's account into its row."""
        columns = self._columns
        columns["priority"][row], columns["using"][row] = user.priority, user.using
        columns["floor"][row], columns["ceiling"][row], columns["group"][row] = user.floor, user.ceiling, user.group


class WaitingSubmitters:
    """The waiting submitters of a pool. ``table`` and ``names`` have a row for each of them, and for some submitters
    that no longer wait (``first_submission`` 0)."""

    def __init__(self) -> None:
        self._restart(-1, 0)

    def _restart(self, configured: int, restarts: int) -> None:
        self.table = SubmitterTable.empty(0)
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self.changing: dict[str, None] = {}
        """Waiting submitters whose accounts change with time."""
        self.groups = EqualPriorityGroups()
        """The waiting submitters, grouped by equal priority."""
        self.using: dict[str, None] = {}
        """Submitters that have slots, or used slots since their priority was logged."""
        self._positions: dict[str, tuple[int, Submitter]] = {}
        self._numbers: dict[int, tuple[int, tuple[object, ...]]] = {}
        self._numbered = count()
        self._order: RowNumbers | None = None
        self._sorted_names = 0
        self._cursors = -1, -1
        self._configured, self._restarts = configured, restarts

    def update_to_state(self, state: Manager, queues: IdleQueues, accounts: CycleSubmitters) -> None:
        """Update the table to the state.

        :param accounts: the submitters' current accounts
        """
        changed = self._changed(state)
        if changed is None or (self._configured, self._restarts) != (state.configured, queues.restarts):
            self._restart(state.configured, queues.restarts)
            changed = dict.fromkeys((*state.submitters, *(name for _, name in queues.submitters_in_order)))
        self._cursors = state.submitter_changes.total, state.rejection_changes.total
        self._number_records(state, changed)
        changed |= queues.changed_submitters
        queues.changed_submitters.clear()
        for name in changed:
            self._evaluate(name, state.submitters.get(name), queues, accounts)
        if self._sorted_names < len(self.names):
            self._sort_names()
        for name in self.changing:
            self.table.write_account(self.row_of[name], accounts.account_of(name))

    def _changed(self, state: Manager) -> dict[str, None] | None:
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

    def _number_records(self, state: Manager, changed: Iterable[str]) -> None:
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
            record_index = {name: number for number, name in enumerate(last)}
            for name, row in self.row_of.items():
                self.table["record_index"][row] = record_index.get(name, _DELETED + self.table["first_submission"][row])
        known.update((name, (number, records[name])) for number, name in enumerate(last, following))

    def _evaluate(self, name: str, record: Submitter | None, queues: IdleQueues, accounts: CycleSubmitters) -> None:
        uses_slots = record is not None and (
            record.slots > 0 or record.weighted_in_use != 0 or record.weighted_usage != record.usage_accounted
        )
        _update_set(self.using, name, uses_slots)
        queue = queues.by_submitter.get(name)
        since = 0 if queue is None else queue.first_submission
        row = self.row_of.get(name)
        if row is None:
            if not since:
                return
            row = self._add(name)
        table = self.table
        if table["first_submission"][row] != since:
            table["first_submission"][row], self._order = since, None
        waits = queue is not None and since > 0
        ages = record is not None and (uses_slots or record.priority != LEAST_PRIORITY or bool(record.leases))
        _update_set(self.changing, name, waits and ages)
        self.groups.remove_submitter(name)
        if queue is None or not waits:
            return
        autoclusters = list(queue.groups)
        table["record_index"][row] = self._positions[name][0] if name in self._positions else _DELETED + since
        table["idle"][row] = queue.idle
        table["requested_cores"][row] = (
            requested_cores(queue, accounts.state) if accounts.rules.tree.has_groups else 0.0
        )
        table["autocluster"][row] = autoclusters[0] if len(autoclusters) == 1 else -1
        table["autocluster_count"][row] = len(autoclusters) if min(autoclusters) >= 0 else -1
        table["reason"][row] = -1
        account = accounts.account_of(name)
        if name not in self.changing:
            table.write_account(row, account)
        if name in self.changing or account.floor > 0 or min(autoclusters) < 0:
            self.groups.single[name] = None
        else:
            autocluster, key = (
                int(table["autocluster"][row]),
                PriorityKey(account.priority, account.using, account.ceiling),
            )
            self.groups.add_submitter(name, key, queue.idle, len(autoclusters), autocluster)

    def _add(self, name: str) -> int:
        if len(self.names) == len(self.table):
            self._make_room()
        row = self.row_of[name] = len(self.names)
        self.names.append(name)
        return row

    def _make_room(self) -> None:
        waiting_rows = np.flatnonzero(self.table["first_submission"])
        self.table, self._order = self.table.select_rows(waiting_rows, len(waiting_rows) + 16), None
        self.names = [self.names[row] for row in waiting_rows.tolist()]
        self.row_of = {name: row for row, name in enumerate(self.names)}
        self._sorted_names = min(self._sorted_names, len(self.names))

    def _sort_names(self) -> None:
        order = sorted(range(len(self.names)), key=self.names.__getitem__)
        self.table["name_order"][order] = np.arange(len(order))
        self._sorted_names = len(self.names)

    def in_order(self) -> RowNumbers:
        """Return the rows of the waiting submitters, in the order in which their first clusters were submitted."""
        if self._order is None:
            waiting_rows = np.flatnonzero(self.table["first_submission"])
            self._order = waiting_rows[np.argsort(self.table["first_submission"][waiting_rows], kind="stable")]
        return self._order

    def submitters_to_age(self, queues: IdleQueues) -> list[str]:
        """Return the submitters whose logged priority may be out of date, in the order of their records."""
        return self.in_record_order({*self.using, *self.changing, *queues.local_cluster_counts})

    def has_idle_jobs(self, name: str) -> bool:
        row = self.row_of.get(name)
        return row is not None and bool(self.table["first_submission"][row])

    def in_record_order(self, names: Iterable[str]) -> list[str]:
        """Sort these submitters by the order of their records, without submitters that have no record."""
        positions = self._positions
        return sorted((name for name in names if name in positions), key=lambda name: positions[name][0])

    def note_logged(self, row: int, number: int) -> None:
        """Record that the log contains the rejection reason with this number for the submitter in this row."""
        self.table["reason"][row] = number
        self.groups.note_logged(self.names[row])

    def reason_number(self, autocluster: int, facts: tuple[object, ...]) -> int:
        """Return the number of an autocluster's rejection reason. It stays the same while the facts do."""
        known = self._numbers.get(autocluster)
        if known is None or known[1] != facts:
            known = self._numbers[autocluster] = next(self._numbered), facts
        return known[0]


def _update_set(names: dict[str, None], name: str, is_in: bool) -> None:
    if is_in:
        names[name] = None
    else:
        names.pop(name, None)


def waiting_submitters(state: Manager, caches: Caches, accounts: CycleSubmitters) -> WaitingSubmitters:
    """Return the submitters in this state that have idle jobs, up to date."""
    waiting = caches.get(WaitingSubmitters)
    waiting.update_to_state(state, idle_queues(state, caches), accounts)
    return waiting
