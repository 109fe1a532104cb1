"""Places for logs in tests: one of each kind of store, fresh for each test, with direct access to the stored data."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from attrs import frozen

from poolbook.adapters.stores.opening import open_log, verify_seal
from poolbook.adapters.stores.verification import Problem
from poolbook.domain.ports.log import EventStore

POSTGRES = os.environ.get("POOLBOOK_TEST_POSTGRES", "")
KINDS = ["memory", "sqlite", *(["postgresql"] if POSTGRES else [])]
DURABLE = KINDS[1:]
"""The kinds that outlive a process."""


@frozen
class Place:
    kind: str
    url: str
    mark: str | None

    def open(self, *, create: bool = True, read_only: bool = False) -> EventStore:
        return open_log(self.url, create=create, read_only=read_only, mark=self.mark)

    def problems(self) -> list[Problem]:
        return verify_seal(self.url, self.mark)

    @property
    def file(self) -> Path:
        """The SQLite file."""
        return Path(self.url)

    def sql(self, statement: str, *parameters: object) -> list[Any]:
        """Run a statement on a separate connection, as a forger or administrator would."""
        if self.kind == "sqlite":
            with closing(sqlite3.connect(self.file)) as connection, connection:
                return connection.execute(statement, parameters).fetchall()
        with connected() as server:
            server.execute(f"SET search_path TO {self.schema}")
            cursor = server.execute(statement.replace("?", "%s"), parameters)
            return cursor.fetchall() if cursor.description else []

    @property
    def schema(self) -> str:
        return self.url.rpartition("schema=")[2]

    @property
    def position(self) -> str:
        """The name of the position's column in the table of events."""
        return "rowid" if self.kind == "sqlite" else "notification_id"


def on_server(schema: str) -> str:
    return f"{POSTGRES}{'&' if '?' in POSTGRES else '?'}schema={schema}"


@contextmanager
def connected() -> Iterator[Any]:
    import psycopg

    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        yield connection


@contextmanager
def place_of(kind: str, folder: Path) -> Iterator[Place]:
    """Provide a place of this kind without a log; remove it afterwards."""
    name = f"log_{uuid4().hex}"
    if kind == "memory":
        place = Place(kind, f"memory:{name}", None)
        holder = place.open()  # keeps it alive while a test closes its own
        yield place
        holder.close()
    elif kind == "sqlite":
        yield Place(kind, str(folder / f"{name}.db"), str(folder / f"{name}.db.head"))
    else:
        try:
            yield Place(kind, on_server(name), str(folder / f"{name}.head"))
        finally:
            with connected() as server:
                server.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
