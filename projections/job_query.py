"""Which jobs are read: by id, by owner, or all; of the queue or of the history."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

Job = tuple[int, int | None]
"""A job's cluster and process; None for the process: the whole cluster."""


class JobSelection(Protocol):
    """What has these may select: jobs that have one of the ids or owners. Neither ids nor owners: all jobs."""

    @property
    def ids(self) -> Sequence[Job]: ...
    @property
    def owners(self) -> Sequence[str]: ...


class SelectedJobs(NamedTuple):
    """A selection."""

    ids: tuple[Job, ...] = ()
    owners: tuple[str, ...] = ()


ALL = SelectedJobs()


class ProcRange(NamedTuple):
    """Jobs of one cluster that share everything: a row, or the part of it that was asked for. ``changes`` is JSON."""

    cluster: int
    first: int
    last: int
    status: int
    changes: str


# Every way to select is one statement or the union of some, so that SQLite's indexes do the work: a job is found by
# the last range that begins no later.
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
"""The jobs of the queue by their ids; those of the history in the order of their ends, the last or the first ahead."""


def stretches(
    connection: sqlite3.Connection, selection: JobSelection, order: str = "queue", changes: bool = True
) -> Iterator[ProcRange]:
    """The jobs that are selected, in one of `ORDERS`, read as they are asked for. `changes` False: without them, which
    is quicker."""
    table, by = ORDERS[order]
    key = "t.id" if table == "history" else "0"
    text = "t.changes" if changes else "'{}'"
    columns = f"{key}, t.cluster, t.first, t.last, t.status, {text}"
    statement, parameters = _statement(selection)
    more = ", 7 DESC" if order == "newest" else ", 7"
    cursor = connection.execute(f"{statement.format(columns=columns, table=table)} ORDER BY {by}{more}", parameters)
    for _, cluster, first, last, status, changed, proc in cursor:
        if last >= 1 << 31:  # no cluster has so many jobs, and listing them would take hours
            raise ValueError(f"cluster {cluster} cannot have a job {last}")
        yield ProcRange(cluster, first if proc is None else proc, last if proc is None else proc, status, changed)


def _statement(selection: JobSelection) -> tuple[str, dict[str, str]]:
    from json import dumps

    clusters = {cluster for cluster, proc in selection.ids if proc is None}
    single = sorted(
        {(cluster, proc) for cluster, proc in selection.ids if proc is not None and cluster not in clusters}
    )
    parameters = {"clusters": dumps(sorted(clusters)), "jobs": dumps(single), "owners": dumps(list(selection.owners))}
    named = [part for part, used in ((_WHOLE, clusters), (_SINGLE, single)) if used]
    if not selection.owners:
        return " UNION ALL ".join(named) or "SELECT {columns}, NULL FROM {table} t", parameters
    if not named:
        return _OWNED, parameters
    others = [f"{part} AND t.cluster NOT IN {_MINE}" for part in named]
    return " UNION ALL ".join([_OWNED, *others]), parameters
