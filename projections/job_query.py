"""Select jobs by id or owner, in the queue or the history."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

Job = tuple[int, int | None]  #: a job's cluster and process, or a cluster and None for all of its jobs


class JobSelection(Protocol):
    """The jobs with one of these ids or owners; all jobs if there are neither ids nor owners."""

    @property
    def ids(self) -> Sequence[Job]: ...
    @property
    def owners(self) -> Sequence[str]: ...


class SelectedJobs(NamedTuple):
    """An immutable `JobSelection`."""

    ids: tuple[Job, ...] = ()
    owners: tuple[str, ...] = ()


ALL = SelectedJobs()


class ProcRange(NamedTuple):
    """A range of equal jobs of one cluster: a row, or the selected part of a row. ``changes`` is JSON."""

    cluster: int
    first: int
    last: int
    status: int
    changes: str


# A selection is one statement, or a union of several, that can use SQLite's indexes. A job belongs to the last range
# that does not begin after it.
_FIRST_AFTER = "SELECT MAX(first) FROM jobs WHERE cluster = :cluster AND first <= :proc"
_WHOLE = "SELECT {columns}, NULL FROM {table} t WHERE t.cluster IN (SELECT value FROM json_each(:clusters))"
_SINGLE = (
    "SELECT {columns}, json_extract(w.value, '$[1]') FROM json_each(:jobs) w CROSS JOIN {table} t "
    "WHERE t.cluster = json_extract(w.value, '$[0]') AND t.last >= json_extract(w.value, '$[1]') AND t.first = "
    "(SELECT MAX(first) FROM {table} WHERE cluster = json_extract(w.value, '$[0]') "
    "AND first <= json_extract(w.value, '$[1]'))"
)
_OWNED = "SELECT {columns}, NULL FROM {table} t WHERE t.cluster IN " + (
    _MINE := "(SELECT cluster FROM clusters WHERE owner IN (SELECT value FROM json_each(:owners)))"
)

ORDERS = {"queue": ("jobs", "2, 3"), "newest": ("history", "1 DESC"), "oldest": ("history", "1")}
"""The table and order of rows: the queue by job id, or the history by end time, latest or earliest first."""


def select_ranges_after(
    connection: sqlite3.Connection, owners: Sequence[str], after: tuple[int, int]
) -> Iterator[ProcRange]:
    """Yield the jobs in the queue that follow a job id, lazily and sorted by id: all, or some owners' jobs. An index
    finds the first one."""
    owned = "AND (SELECT owner FROM clusters c WHERE c.cluster = t.cluster) IN (SELECT value FROM json_each(:owners))"
    parameters = {"cluster": after[0], "proc": after[1], "owners": _as_json(owners)}
    statement = (
        f"SELECT cluster, first, last, status, changes FROM jobs t "
        f"WHERE (cluster, first) >= (:cluster, IFNULL(({_FIRST_AFTER}), 0)) "
        f"{owned if owners else ''} ORDER BY cluster, first"
    )
    for job_range in map(ProcRange._make, connection.execute(statement, parameters)):
        if (job_range.cluster, job_range.first) > after:
            yield job_range
        elif (job_range.cluster, job_range.last) > after:
            yield job_range._replace(first=after[1] + 1)


def _as_json(values: Sequence[object]) -> str:
    from json import dumps

    return dumps(list(values))


def select_ranges(
    connection: sqlite3.Connection, selection: JobSelection, order: str = "queue", changes: bool = True
) -> Iterator[ProcRange]:
    """Yield the selected jobs lazily in one of `ORDERS`. Leaving out `changes` makes this faster."""
    table, by = ORDERS[order]
    key = "t.id" if table == "history" else "0"
    changes_column = "t.changes" if changes else "'{}'"
    columns = f"{key}, t.cluster, t.first, t.last, t.status, {changes_column}"
    statement, parameters = _statement(selection)
    then_by = ", 7 DESC" if order == "newest" else ", 7"
    cursor = connection.execute(f"{statement.format(columns=columns, table=table)} ORDER BY {by}{then_by}", parameters)
    for _, cluster, first, last, status, changed, proc in cursor:
        if last >= 1 << 31:  # a damaged file: clusters have fewer jobs, and listing so many would take hours
            raise ValueError(f"the views' file is damaged: cluster {cluster} cannot have a job {last}")
        yield ProcRange(cluster, first if proc is None else proc, last if proc is None else proc, status, changed)


def _statement(selection: JobSelection) -> tuple[str, dict[str, str]]:
    clusters = {cluster for cluster, proc in selection.ids if proc is None}
    single = sorted(
        {(cluster, proc) for cluster, proc in selection.ids if proc is not None and cluster not in clusters}
    )
    parameters = {
        "clusters": _as_json(sorted(clusters)),
        "jobs": _as_json(single),
        "owners": _as_json(selection.owners),
    }
    named = [part for part, is_used in ((_WHOLE, clusters), (_SINGLE, single)) if is_used]
    if not selection.owners:
        return " UNION ALL ".join(named) or "SELECT {columns}, NULL FROM {table} t", parameters
    if not named:
        return _OWNED, parameters
    others = [f"{part} AND t.cluster NOT IN {_MINE}" for part in named]
    return " UNION ALL ".join([_OWNED, *others]), parameters
