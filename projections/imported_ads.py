"""The ads that an import kept: the history's jobs, where each ad is found, who used how much; and the last samples.

The tables do not hold the ads themselves, which stand in the log: a job's row tells the position of the event that
keeps its ad, and which of the event's ads it is (``domain/imported/packed_ads``).

The same job may stand in the history twice: in two files, or because it was written again. Its rows are all there; what
it used counts once, as the last of them says.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .schema import insertion

if TYPE_CHECKING:
    from ..domain.events import AdsKept, Event
    from .job_query import JobSelection

SAMPLED: Final = frozenset({"job_ads", "machine_ads", "submitter_ads"})
"""The kinds of sources that say how things stood at one moment."""


class Kept(NamedTuple):
    """Where an ad is: the event's position in the log, and the ad's number among those that it keeps, from 0."""

    position: int
    number: int


class Spent(NamedTuple):
    """What jobs used. ``name`` tells whose they are; ``wall``: the time that they ran, ``cpu``: the time on processors
    (user's and system's), ``slot_time``: the time that they held slots, times the slots' weights; all in microseconds.
    """

    name: str
    jobs: int
    wall: int
    cpu: int
    slot_time: int


class ArchiveFold:
    """Folds a batch of events. An event that keeps ads is written at once: its jobs may be in the next one, too."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        from ..domain.events import AdsKept

        self._connection = connection
        self._accounts: dict[tuple[str, str, str], int] = {}
        self._spent: dict[int, list[int]] = {}
        self._changed: set[int] = set()
        self._known = False
        self.handlers: dict[type[Event], Callable[..., None]] = {AdsKept: self._kept}

    def _kept(self, position: int, event: AdsKept) -> None:
        if event.kind in SAMPLED:
            from ..domain.imported.record_sources import place_of

            place = place_of(event.stimulus)
            row = (event.kind, event.at, position, event.count, place.source if place else 0)
            self._connection.execute(insertion("samples"), row)
        elif event.kind == "history":
            self._history(position, event)

    def _history(self, position: int, event: AdsKept) -> None:
        from ..domain.imported.packed_ads import index

        index_row = index(event)
        users, owners, groups = index_row.texts("user"), index_row.texts("owner"), index_row.texts("group")
        accounts = [self._account(*who) for who in zip(users, owners, groups, strict=True)]
        jobs = list(zip(index_row.wholes("cluster"), index_row.wholes("proc"), index_row.wholes("qdate"), strict=True))
        cpu = [
            user + system
            for user, system in zip(index_row.micros("user_cpu"), index_row.micros("sys_cpu"), strict=True)
        ]
        used = list(zip(index_row.micros("wall"), cpu, index_row.micros("slot_time"), strict=True))
        left = index_row.wholes("left")
        order = list(range(event.count))
        if left and left[0] > left[-1]:  # printed by condor_history, the last first
            order.reverse()
        last = {jobs[number]: number for number in order}
        execute = self._connection.execute
        rows = []
        for number in order:
            job, account, amounts = jobs[number], accounts[number], used[number]
            counted = last[job] == number
            if counted:
                before = execute(_BEFORE, job).fetchone()
                if before is not None:
                    execute("UPDATE archive SET counted=0 WHERE id=?", before[:1])
                    self._count(before[1], -1, before[2:])
                self._count(account, 1, amounts)
            rows.append((None, *job, left[number], position, number, account, *amounts, int(counted)))
        self._connection.executemany(insertion("archive"), rows)

    def _account(self, *who: str) -> int:
        """The number of an account: of a user, whose jobs have an owner, and perhaps a group."""
        if not self._known:
            self._known = True
            for number, *texts, jobs, wall, cpu, slot_time in self._connection.execute("SELECT * FROM accounts"):
                self._accounts[texts[0], texts[1], texts[2]] = number
                self._spent[number] = [jobs, int(wall), int(cpu), int(slot_time)]
        number = self._accounts.get((who[0], who[1], who[2]))
        if number is None:
            number = self._accounts[who[0], who[1], who[2]] = len(self._accounts) + 1
            self._spent[number] = [0, 0, 0, 0]
        return number

    def _count(self, account: int, jobs: int, amounts: tuple[int, ...]) -> None:
        spent = self._spent[account]
        spent[0] += jobs
        spent[1] += jobs * amounts[0]
        spent[2] += jobs * amounts[1]
        spent[3] += jobs * amounts[2]
        self._changed.add(account)

    def flush(self) -> None:
        names = {number: who for who, number in self._accounts.items()}
        self._connection.executemany(
            insertion("accounts", "INSERT OR REPLACE"),
            [
                (number, *names[number], self._spent[number][0], *map(str, self._spent[number][1:]))
                for number in sorted(self._changed)
            ],
        )


_BEFORE = "SELECT id, account, wall, cpu, slot_time FROM archive WHERE cluster=? AND proc=? AND qdate=? AND counted=1"

# -- Reading -----------------------------------------------------------------------------------------------------------

_WHOLE = "SELECT id FROM archive WHERE cluster IN (SELECT value FROM json_each(:clusters))"
_SINGLE = (
    "SELECT a.id FROM json_each(:jobs) w CROSS JOIN archive a "
    "ON a.cluster = json_extract(w.value, '$[0]') AND a.proc = json_extract(w.value, '$[1]')"
)
_OWNED = "account IN (SELECT id FROM accounts WHERE owner IN (SELECT value FROM json_each(:owners)))"


def kept_ad_places(
    connection: sqlite3.Connection, selection: JobSelection, forwards: bool, once: bool = False
) -> Iterator[Kept]:
    """Where the ads of the selected jobs are, the one that left the queue last first, or with `forwards` the first;
    with `once` of each job only the one that counts."""
    from json import dumps

    whole_clusters = [cluster for cluster, proc in selection.ids if proc is None]
    single = [(cluster, proc) for cluster, proc in selection.ids if proc is not None]
    parameters = {"clusters": dumps(whole_clusters), "jobs": dumps(single), "owners": dumps(list(selection.owners))}
    named = f"id IN ({_WHOLE} UNION {_SINGLE})"
    conditions = [part for part, given in ((named, selection.ids), (_OWNED, selection.owners)) if given]
    if len(conditions) == 2:
        conditions = [f"id IN ({_WHOLE} UNION {_SINGLE} UNION SELECT id FROM archive WHERE {_OWNED})"]
    if once:
        conditions.append("counted=1")
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    order = "ASC" if forwards else "DESC"
    statement = f"SELECT position, number FROM archive {where}ORDER BY left {order}, id {order}"
    return (Kept(*row) for row in connection.execute(statement, parameters))


_OWN = (
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


def _own(name: str) -> str:
    """The statement that sums up what the jobs of the pool's own history used; a row is a range of like jobs."""
    return _OWN.format(name=name, micros=f"{_MICROS} FROM history")


def _string(attribute: str, otherwise: str = "''") -> str:
    """What an attribute of the jobs' cluster says; ``otherwise`` (empty) if it has none."""
    return f"COALESCE(TRIM(json_extract(c.ad, '$.{attribute}'), '\"'), {otherwise})"


BY: Final[dict[str, tuple[str, str]]] = {
    "user": ("SELECT user, jobs, wall, cpu, slot_time FROM accounts", _own(_string("User", "c.submitter"))),
    "group": (
        "SELECT acct_group, jobs, wall, cpu, slot_time FROM accounts",
        _own(_string("AcctGroup")),
    ),
    "cluster": (
        "SELECT cluster, COUNT(*), SUM(wall), SUM(cpu), SUM(slot_time) FROM archive WHERE counted=1 GROUP BY cluster",
        _own("cluster"),
    ),
}
"""By what usage is told, and how it is found: of an import's history, and of the pool's own."""


def spent(connection: sqlite3.Connection, by: str = "user") -> list[Spent]:
    """What the jobs of the history used, by one of ``BY``, in order. Jobs of no group have "" as theirs."""
    totals: dict[Any, list[int]] = {}
    for statement in BY[by]:
        for name, *amounts in connection.execute(statement):
            sums = totals.setdefault(name, [0, 0, 0, 0])
            for place, amount in enumerate(amounts):
                sums[place] += int(amount)
    return [Spent(str(name), *amounts) for name, amounts in sorted(totals.items()) if amounts[0]]


def last_sample(connection: sqlite3.Connection, kind: str) -> list[int]:
    """The positions of the events that keep the latest sample of a kind (one of ``SAMPLED``), in the log's order."""
    row = connection.execute("SELECT source FROM samples WHERE kind=? ORDER BY at DESC, position DESC", (kind,))
    latest = row.fetchone()
    if latest is None:
        return []
    statement = "SELECT position FROM samples WHERE kind=? AND source=? ORDER BY position"
    return [position for (position,) in connection.execute(statement, (kind, *latest))]
