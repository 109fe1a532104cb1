"""The tables of the views. One description makes them, and tells the folds the order of a row's values.

Ranges of processes have both ends included. Instants are microseconds since 1970, UTC, but ``qdate`` (seconds, as in
ads). Ads and changes are JSON objects, attribute -> expression text. What is not there is empty, never NULL.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

FORMAT = 10
"""Counts the changes of these tables and of what the folds write into them. Views of another format are made anew."""

APPLICATION_ID = 0x506F6F76
"""What the header of a file of views says that it is: "Poov"."""


WHOSE = "Negotiator"
"""Among a cycle's statistics: of several negotiators, whose it was."""


class TableSchema(NamedTuple):
    """Columns with their types, the primary key, and the columns of indexes of their own."""

    columns: dict[str, type]
    key: str | tuple[str, ...] | None = None
    indexed: tuple[str, ...] = ()
    ordered: tuple[str, ...] = ()


TABLES: dict[str, TableSchema] = {
    # How far the views have come in the log: see checkpoint.py.
    "tracking": TableSchema({"name": str, "position": int, "digest": str, "last": str, "at": int}, "name"),
    # `settings`: those in force. `accounted`: when the priorities were brought up to date last.
    "pool": TableSchema(
        {
            "name": str, "dialect": str, "uid_domain": str, "version": str, "founded": int, "settings": str,
            "accounted": int,
        },
    ),
    # A submission; it stays for the sake of the history. `chunks` holds what differs between its jobs.
    "clusters": TableSchema(
        {
            "cluster": int, "submitter": str, "owner": str, "batch": str, "qdate": int, "count": int, "ad": str,
        },
        "cluster",
    ),
    # What makes the jobs of a cluster (state.cluster.Factory). `changes`: those of the jobs that are still to come.
    "factories": TableSchema({"cluster": int, "made": int, "mode": str, "reason": str, "changes": str}, "cluster"),
    "chunks": TableSchema({"cluster": int, "number": int, "chunk": bytes}, ("cluster", "number")),
    # Jobs in the queue. A row is a range of processes that share everything; `slot`: where its processes are alive.
    # The index answers counts and look-ups by itself, and is the only one: a key would be written twice.
    "jobs": TableSchema(
        {"cluster": int, "first": int, "last": int, "status": int, "slot": str, "changes": str},
        None,
        ("cluster", "first", "last", "status"),
    ),
    # Jobs that have left the queue, in the order in which they did.
    "history": TableSchema(
        {"id": int, "cluster": int, "first": int, "last": int, "status": int, "ended_at": int, "changes": str},
        "id",
        ("cluster", "first"),
    ),
    # `record`: a machine as the live state has it (state.Machine), without its slots.
    "machines": TableSchema({"machine": str, "joined": int, "record": str}, "machine"),
    # `born`: the position of the event of its birth, the pool's order of slots. `matched`: the job that it was matched
    # with, until it is claimed. `record`: the slot as the live state has it (state.Slot).
    "slots": TableSchema(
        {
            "name": str, "machine": str, "born": int, "state": str, "activity": str, "submitter": str, "claimed": int,
            "matched": str, "record": str,
        },
        "name",
    ),
    # What the accountant has of who has jobs (state.Submitter). `weighted`, `drawn` and `usage` are microseconds times
    # thousandths, `plain` microseconds, as text: in a large pool they outgrow SQLite's 64 bits. `leases`: what is lent,
    # with its value and its end.
    "submitters": TableSchema(
        {
            "submitter": str, "priority": float, "updated": int, "factor": float, "floor": float, "ceiling": float,
            "leases": str, "in_use": int, "slots": int, "counted": int, "weighted": str, "plain": str, "drawn": str,
            "usage": str, "ended": int, "begin": int, "last": int,
        },
        "submitter",
    ),
    # What the slots' claims weigh, in thousandths.
    "claims": TableSchema({"slot": str, "weight": int}, "slot"),
    # Why jobs got nothing in the last cycle that said so, by the first job of each kind (events.Unmatched).
    "refusals": TableSchema(
        {
            "cluster": int, "proc": int, "at": int, "jobs": int, "slots": int, "clauses": str, "refused_by_slot": int,
            "taken": int, "submitter": str, "denied": str, "limited": str, "allowed": float, "used": float,
            "acct_group": str, "reason": str,
        },
        ("cluster", "proc"),
    ),
    # The statistics of the last cycles that decided anything, as JSON (events.CycleHeld).
    "cycles": TableSchema({"position": int, "at": int, "statistics": str}, "position"),
    # `record`: the defragmentation as the live state has it (state.Defrag).
    "defrag": TableSchema({"record": str}),
    # Ads of the history that an import kept: where each stands, when its job left the queue (seconds), and what it used
    # (microseconds). `counted`: 0 if a later ad of the same job stands for it.
    "archive": TableSchema(
        {
            "id": int, "cluster": int, "proc": int, "qdate": int, "left": int, "position": int, "number": int,
            "account": int, "wall": int, "cpu": int, "slot_time": int, "counted": int,
        },
        "id",
        ("cluster", "proc"),
        ("left",),
    ),
    # Whose the jobs in the archive are, and what all of them used: microseconds as text, as they may outgrow 64 bits.
    "accounts": TableSchema(
        {
            "id": int, "user": str, "owner": str, "acct_group": str, "jobs": int, "wall": str, "cpu": str,
            "slot_time": str,
        },
        "id",
    ),
    # Ads that tell how things stood at one moment, as condor_q, condor_status and condor_userprio print them.
    "samples": TableSchema(
        {"kind": str, "at": int, "position": int, "count": int, "source": int}, None, ("kind", "at")
    ),
}  # fmt: skip


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether the tables are there, and of this format."""
    return bool(connection.execute("PRAGMA user_version").fetchone()[0] == FORMAT)


def create(connection: sqlite3.Connection) -> None:
    """Make the tables anew, empty, whatever is there. Within a transaction: all of it happens, or nothing.

    sqlite-utils makes them. It takes as long to import as a whole short command: nothing else here uses it.
    """
    from sqlite_utils import Database

    database = Database(connection, recursive_triggers=False, execute_plugins=False)
    for old in database.table_names():
        database.table(old).drop()
    for name, table in TABLES.items():
        made = database.table(name).create(table.columns, pk=table.key, not_null=set(table.columns))
        for index in filter(None, (table.indexed, table.ordered)):
            made.create_index(index, index_name=f"{name}_by_{index[0]}")
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={FORMAT}")


def insertion(table: str, kind: str = "INSERT") -> str:
    """The statement that stores a row of a table, its values in the order of ``TABLES``."""
    return f"{kind} INTO {table} VALUES ({','.join('?' * len(TABLES[table].columns))})"
