"""The tables of the views. ``tables.txt`` defines the tables, their documentation, and the column order of rows;
``tables.sql`` creates them (``python -m tests.projections.tables_sql`` writes it)."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from functools import cache
from typing import Final, NamedTuple

from ..domain.package_data import get_data, sections

FORMAT = 21  #: the version of these tables and of their values. Views with a different version are rebuilt.

APPLICATION_ID = 0x506F6F76  #: the SQLite application id in the header of the views' file: "Poov"


GONE: Final = "SELECT machine FROM machines WHERE record->>'$.gone'"
"""Selects the machines whose ads are gone, because the manager has not heard from them for too long."""

NEGOTIATOR_KEY = "Negotiator"
"""The key of the negotiator's name in a cycle's statistics, if the pool has several negotiators."""

_TYPES: Final[dict[str, type]] = {"int": int, "str": str, "float": float, "bytes": bytes}


class TableSchema(NamedTuple):
    """A table or an SQL view: the meaning of a row, and the type and meaning of each column."""

    description: str
    columns: dict[str, type]
    meanings: dict[str, str]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...]
    sql: str  #: the SELECT statement of a view; empty for a table


@cache
def schemas(kind: str) -> dict[str, TableSchema]:
    """Return all tables ("table") or SQL views ("view"), by name."""
    matching = [section for section in sections(get_data(__package__, "tables.txt")) if section.kind == kind]
    return {section.about: _read(*section.lines) for section in matching}


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
    """Return True if the tables exist and have the current format."""
    return bool(connection.execute("PRAGMA user_version").fetchone()[0] == FORMAT)


def create(connection: sqlite3.Connection) -> None:
    """Replace all tables and SQL views with empty ones. The caller must be in a transaction.

    sqlite-utils wrote the statements of ``tables.sql``, because importing it takes as long as a short command runs.
    """
    old = connection.execute("SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY type DESC")
    for kind, name in old.fetchall():
        connection.execute(f'DROP {kind} "{name}"')
    for statement in get_data(__package__, "tables.sql").decode().splitlines():
        connection.execute(statement)
    connection.execute(f"CREATE VIEW documentation AS {_documentation()}")
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={FORMAT}")


def create_past(connection: sqlite3.Connection, position: int) -> None:
    """Hide all tables of views behind empty temporary ones, for the views at a position of the log. Only the
    tables whose rows never change still have their rows, up to this position; nothing is added to them."""
    create_temporary(connection, *schemas("table"), *schemas("view"))
    last_id = connection.execute("SELECT MAX(id) FROM main.history").fetchone()[0] or 0
    ended = bisect_right(range(1, last_id + 1), position, key=lambda id: _position_of(connection, id))
    submitted = f"position <= {position}"
    for name, condition in (
        ("clusters", submitted),
        ("chunks", f"cluster IN (SELECT cluster FROM main.clusters WHERE {submitted})"),
        ("history", f"id <= {ended}"),
        ("load", f"position <= {position}"),
        ("findings", f"position <= {position}"),
        ("uses", f"position <= {position}"),
    ):
        connection.execute(f"DROP TABLE temp.{name}")
        connection.execute(f"CREATE TEMP VIEW {name} AS SELECT * FROM main.{name} WHERE {condition}")
        connection.execute(f"CREATE TEMP TRIGGER keep_{name} INSTEAD OF INSERT ON {name} BEGIN SELECT 1; END")
    connection.execute("DROP TABLE temp.snapshots")


def create_temporary(connection: sqlite3.Connection, *names: str) -> None:
    """Hide tables or SQL views with these names behind temporary ones, which are empty."""
    for statement in get_data(__package__, "tables.sql").decode().splitlines():
        _, kind, name, *rest = statement.partition(" (")[0].replace('"', "").split()
        if name in names:
            connection.execute(f"CREATE TEMP {statement.removeprefix('CREATE ')}")
        elif kind == "INDEX" and rest[1] in names:
            connection.execute(f"CREATE INDEX temp.{statement.removeprefix('CREATE INDEX ')}")


def _position_of(connection: sqlite3.Connection, id: int) -> int:
    row: tuple[int] = connection.execute("SELECT position FROM main.history WHERE id=?", (id,)).fetchone()
    return row[0]


def _documentation() -> str:
    """Return a SELECT of the descriptions in ``tables.txt``, for users who open the file with another program."""
    rows = []
    for name, table in (schemas("table") | schemas("view")).items():
        for column, meaning in {"": table.description, **table.meanings}.items():
            rows.append("('{}', '{}', '{}')".format(name, column, meaning.replace("'", "''")))
    return f'SELECT column1 AS name, column2 AS "column", column3 AS meaning FROM (VALUES {", ".join(rows)})'


def insertion(table: str, kind: str = "INSERT") -> str:
    """Return the statement that stores a row in a table, with values in the order of ``tables.txt``."""
    values = ",".join("?" * len(schemas("table")[table].columns))
    return f"{kind} INTO {table} VALUES ({values})"
