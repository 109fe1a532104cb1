"""The view of imported ads: the history's jobs and their usage, the positions of their ads, and the last samples.

The ads themselves are in the log. A job's row contains the position of the event with its ad, and the ad's number in
that event (``domain/imported/packed_ads``).

A job may be in the history several times: in two files, or because its ad was written again. Each copy has a row, but
usage includes only the last one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .schema import insertion

if TYPE_CHECKING:
    from ..domain.events import AdsKept, Event
    from .job_query import JobSelection

SAMPLED: Final = frozenset({"job_ads", "machine_ads", "submitter_ads"})
"""The kinds of sources that contain the ads of one moment."""


class AdPlace(NamedTuple):
    """The location of an ad: the event's position in the log, and the ad's number in the event, counting from 0."""

    position: int
    number: int


class Spent(NamedTuple):
    """The usage of a user's, group's or cluster's jobs. Times are in microseconds.

    >>> [usage] = log.usage(by="user")
    >>> usage.name, usage.jobs, usage.wall // 1_000_000
    ('alice@example.org', 2, 1200)
    """

    name: str  #: the user, group or cluster
    jobs: int  #: the number of jobs
    wall: int  #: their run time
    cpu: int  #: their CPU time, user and system
    slot_time: int  #: the time during which they held slots, multiplied by the slots' weights


class ArchiveFold:
    """Folds a batch of events into the archive. It writes each event's ads immediately, because the next event may
    contain the same jobs."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        from ..domain.events import AdsKept

        self._connection = connection
        self._accounts: dict[tuple[str, str, str], int] = {}
        self._usage: dict[int, list[int]] = {}
        self._changed: set[int] = set()
        self._known = False
        self.handlers: dict[type[Event], Callable[..., None]] = {AdsKept: self._fold_ads}

    def _fold_ads(self, position: int, event: AdsKept) -> None:
        if event.kind in SAMPLED:
            from ..domain.imported.record_sources import place_of

            place = place_of(event.stimulus)
            row = (event.kind, event.at, position, event.count, place.source if place else 0)
            self._connection.execute(insertion("samples"), row)
        elif event.kind == "history":
            self._fold_history(position, event)

    def _fold_history(self, position: int, event: AdsKept) -> None:
        from ..domain.imported.packed_ads import index_of_event

        index_row = index_of_event(event)
        users, owners, groups = index_row.texts("user"), index_row.texts("owner"), index_row.texts("group")
        accounts = [self._account(*names) for names in zip(users, owners, groups, strict=True)]
        jobs = list(
            zip(index_row.integers("cluster"), index_row.integers("proc"), index_row.integers("qdate"), strict=True)
        )
        cpu = [
            user + system
            for user, system in zip(index_row.microseconds("user_cpu"), index_row.microseconds("sys_cpu"), strict=True)
        ]
        used = list(zip(index_row.microseconds("wall"), cpu, index_row.microseconds("slot_time"), strict=True))
        leave_times = index_row.integers("left")
        order = list(range(event.count))
        if leave_times and leave_times[0] > leave_times[-1]:  # condor_history prints the latest job first
            order.reverse()
        last = {jobs[number]: number for number in order}
        connection = self._connection
        statement = _EARLIER_COPIES.format(jobs=",".join(["(?,?,?)"] * len(last)))
        for copy, account, *amounts in connection.execute(statement, [*chain(*last)]).fetchall():
            connection.execute("UPDATE archive SET counted=0 WHERE id=?", (copy,))
            self._count(account, -1, amounts)
        for number in last.values():
            self._count(accounts[number], 1, used[number])
        rows = [
            (None, *job, leave_times[number], position, number, accounts[number], *used[number], last[job] == number)
            for number, job in ((number, jobs[number]) for number in order)
        ]
        connection.executemany(insertion("archive"), rows)

    def _account(self, user: str, owner: str, group: str) -> int:
        """Return the number of an account; add the account if it is new."""
        if not self._known:
            self._known = True
            for number, *names, jobs, wall, cpu, slot_time in self._connection.execute("SELECT * FROM accounts"):
                self._accounts[names[0], names[1], names[2]] = number
                self._usage[number] = [jobs, int(wall), int(cpu), int(slot_time)]
        number = self._accounts.get((user, owner, group))
        if number is None:
            number = self._accounts[user, owner, group] = len(self._accounts) + 1
            self._usage[number] = [0, 0, 0, 0]
        return number

    def _count(self, account: int, jobs: int, amounts: Sequence[int]) -> None:
        usage = self._usage[account]
        usage[0] += jobs
        usage[1] += jobs * amounts[0]
        usage[2] += jobs * amounts[1]
        usage[3] += jobs * amounts[2]
        self._changed.add(account)

    def flush(self) -> None:
        names_by_number = {number: names for names, number in self._accounts.items()}
        self._connection.executemany(
            insertion("accounts", "INSERT OR REPLACE"),
            [
                (number, *names_by_number[number], self._usage[number][0], *map(str, self._usage[number][1:]))
                for number in sorted(self._changed)
            ],
        )


_EARLIER_COPIES = (
    "WITH job(cluster, proc, qdate) AS (VALUES {jobs}) SELECT id, account, wall, cpu, slot_time "
    "FROM job CROSS JOIN archive USING (cluster, proc, qdate) WHERE counted=1"
)

# -- Reading -----------------------------------------------------------------------------------------------------------

_WHOLE = "SELECT id FROM archive WHERE cluster IN (SELECT value FROM json_each(:clusters))"
_SINGLE = (
    "SELECT a.id FROM json_each(:jobs) w CROSS JOIN archive a "
    "ON a.cluster = json_extract(w.value, '$[0]') AND a.proc = json_extract(w.value, '$[1]')"
)
_OWNED = "account IN (SELECT id FROM accounts WHERE owner IN (SELECT value FROM json_each(:owners)))"


def kept_ad_places(
    connection: sqlite3.Connection, selection: JobSelection, forwards: bool, once: bool = False
) -> Iterator[AdPlace]:
    """Yield the locations of the selected jobs' ads, starting with the last job to leave the queue, or with `forwards`
    the first. With `once`, yield only the ad of each job that usage includes."""
    from json import dumps

    whole_clusters = [cluster for cluster, proc in selection.ids if proc is None]
    single = [(cluster, proc) for cluster, proc in selection.ids if proc is not None]
    parameters = {"clusters": dumps(whole_clusters), "jobs": dumps(single), "owners": dumps(list(selection.owners))}
    named = f"id IN ({_WHOLE} UNION {_SINGLE})"
    conditions = [part for part, is_used in ((named, selection.ids), (_OWNED, selection.owners)) if is_used]
    if len(conditions) == 2:
        conditions = [f"id IN ({_WHOLE} UNION {_SINGLE} UNION SELECT id FROM archive WHERE {_OWNED})"]
    if once:
        conditions.append("counted=1")
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    order = "ASC" if forwards else "DESC"
    statement = f"SELECT position, number FROM archive {where}ORDER BY left {order}, id {order}"
    return (AdPlace(*row) for row in connection.execute(statement, parameters))


_POOL_USAGE = (
    "SELECT {name}, SUM(n), SUM(n * wall), SUM(n * (user_cpu + sys_cpu)), SUM(n * slot_time) FROM (SELECT cluster, "
    "last - first + 1 AS n, {micros}) JOIN clusters c USING (cluster) GROUP BY 1"
)
_MICROS = ", ".join(
    f"CAST(ROUND(1e6 * COALESCE(json_extract(changes, '$.{attribute}'), 0)) AS INTEGER) AS {name}"
    for name, attribute in (
        ("wall", "RemoteWallClockTime"),
        ("user_cpu", "CumulativeRemoteUserCpu"),
        ("sys_cpu", "CumulativeRemoteSysCpu"),
        ("slot_time", "CumulativeSlotTime"),
    )
)


def _pool_usage(name: str) -> str:
    """Return the statement that totals the usage in the pool's own history, whose rows are ranges of equal jobs."""
    return _POOL_USAGE.format(name=name, micros=f"{_MICROS} FROM history")


def _string(attribute: str, default: str = "''") -> str:
    return f"COALESCE(TRIM(json_extract(c.ad, '$.{attribute}'), '\"'), {default})"


USAGE_STATEMENTS: Final[dict[str, tuple[str, str]]] = {
    "user": ("SELECT user, jobs, wall, cpu, slot_time FROM accounts", _pool_usage(_string("User", "c.submitter"))),
    "group": ("SELECT acct_group, jobs, wall, cpu, slot_time FROM accounts", _pool_usage(_string("AcctGroup"))),
    "cluster": (
        "SELECT cluster, COUNT(*), SUM(wall), SUM(cpu), SUM(slot_time) FROM archive WHERE counted=1 GROUP BY cluster",
        _pool_usage("cluster"),
    ),
}
"""For each grouping: the statements for the usage in an imported history, and in the pool's own history."""


def usage(connection: sqlite3.Connection, by: str = "user") -> list[Spent]:
    """Return the usage of the jobs in the history, grouped by a key of ``USAGE_STATEMENTS`` and sorted by name. Jobs
    without an accounting group are under the empty name."""
    totals: dict[Any, list[int]] = {}
    for statement in USAGE_STATEMENTS[by]:
        for name, *amounts in connection.execute(statement):
            sums = totals.setdefault(name, [0, 0, 0, 0])
            for column, amount in enumerate(amounts):
                sums[column] += int(amount)
    return [Spent(str(name), *amounts) for name, amounts in sorted(totals.items()) if amounts[0]]


def last_sample(connection: sqlite3.Connection, kind: str) -> list[int]:
    """Return the positions of the events with the latest sample of a kind (from ``SAMPLED``), in log order."""
    row = connection.execute("SELECT source FROM samples WHERE kind=? ORDER BY at DESC, position DESC", (kind,))
    latest = row.fetchone()
    if latest is None:
        return []
    statement = "SELECT position FROM samples WHERE kind=? AND source=? ORDER BY position"
    return [position for (position,) in connection.execute(statement, (kind, *latest))]
