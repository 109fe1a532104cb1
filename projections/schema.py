"""The tables of the views, as ``tables.txt`` describes them: that makes them, their page, and the order of a row's
values for the folds."""

from __future__ import annotations

import sqlite3
from functools import cache
from pkgutil import get_data
from typing import Final, NamedTuple

from ..domain.package_data import sections
from ..domain.state_machines.job_rows import JOB_STATUS_NUMBERS_HTCONDOR_25

FORMAT = 13
"""Counts the changes of these tables and of what the folds write into them. Views of another format are made anew."""

APPLICATION_ID = 0x506F6F76
"""What the header of a file of views says that it is: "Poov"."""


WHOSE = "Negotiator"
"""Among a cycle's statistics: of several negotiators, whose it was."""

_TYPES: Final[dict[str, type]] = {"int": int, "str": str, "float": float, "bytes": bytes}


class TableSchema(NamedTuple):
    """A table or an SQL view: what a row is, and each column's type and meaning."""

    description: str
    columns: dict[str, type]
    meanings: dict[str, str]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...]
    sql: str  #: of a view


@cache
def described(kind: str) -> dict[str, TableSchema]:
    """Return all tables ("table") or SQL views ("view"), by name."""
    described_sections = [section for section in sections(get_data(__package__, "tables.txt")) if section.kind == kind]
    return {section.about: _read(*section.lines) for section in described_sections}


def _read(description: str, *lines: str) -> TableSchema:
    columns = [line.split(" | ") for line in lines if " | " in line]
    clauses = [line.partition(" ")[::2] for line in lines if " | " not in line]
    named = [(word, tuple(rest.split(", "))) for word, rest in clauses if word != "sql"]
    return TableSchema(
        description,
        {name: _TYPES[kind] for name, kind, _ in columns},
        {name: meaning for name, _, meaning in columns},
        next((names for word, names in named if word == "key"), ()),
        tuple(names for word, names in named if word == "index"),
        next((rest for word, rest in clauses if word == "sql"), ""),
    )


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether the tables are there, and of this format."""
    return bool(connection.execute("PRAGMA user_version").fetchone()[0] == FORMAT)


def create(connection: sqlite3.Connection) -> None:
    """Rebuild the tables and the SQL views, empty, whatever is there. Within a transaction: all of it happens, or
    nothing.

    sqlite-utils makes them. It takes as long to import as a whole short command: nothing else here uses it.
    """
    from sqlite_utils import Database

    database = Database(connection, recursive_triggers=False, execute_plugins=False)
    for shown in database.views:
        shown.drop()
    for old in database.tables:
        old.drop()
    for name, table in described("table").items():
        key = table.key if len(table.key) > 1 else next(iter(table.key), None)
        made = database.table(name).create(table.columns, pk=key, not_null=set(table.columns))
        for index in table.indexes:
            made.create_index(index, index_name=f"{name}_by_{index[0]}")
    numbers = " ".join(f"WHEN {number} THEN '{status}'" for status, number in JOB_STATUS_NUMBERS_HTCONDOR_25.items())
    for name, view in described("view").items():
        database.create_view(name, view.sql.format(status=f"CASE j.status {numbers} END"))
    database.create_view("documentation", _documentation())
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={FORMAT}")


def _documentation() -> str:
    """Return a SELECT of what ``tables.txt`` says, for users who open the file with another program."""
    rows = []
    for name, table in (described("table") | described("view")).items():
        for column, meaning in {"": table.description, **table.meanings}.items():
            rows.append("('{}', '{}', '{}')".format(name, column, meaning.replace("'", "''")))
    return f'SELECT column1 AS name, column2 AS "column", column3 AS meaning FROM (VALUES {", ".join(rows)})'


def insertion(table: str, kind: str = "INSERT") -> str:
    """The statement that stores a row of a table, its values in the order of ``tables.txt``."""
    values = ",".join("?" * len(described("table")[table].columns))
    return f"{kind} INTO {table} VALUES ({values})"
