"""Logs in PostgreSQL, each in its own schema, on the eventsourcing library's pool of connections.

The tables are as in an SQLite log. Two things differ from the library's recorder: the append sets the positions instead
of a sequence (which would leave a gap after each rollback), and it locks the head's row instead of the table of events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from threading import local
from typing import Any

import psycopg
from eventsourcing.persistence import PersistenceError
from eventsourcing.postgres import PostgresDatastore
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Composed, Identifier
from psycopg_pool import PoolClosed, PoolTimeout

from ...domain.ports.log import Fenced, Head, LogDamaged, LogError, LogUnavailable
from .format import FORMAT
from .location import safe_url
from .recorder import InDoubt, SqlRecorder
from .seal import GENESIS, AppendBatch

LOCK_TIMEOUT = 5  #: how many seconds an append waits while another process writes
CONNECT_TIMEOUT = 5  #: seconds to wait for a server's answer
_OPEN_TIMEOUT = 10  #: seconds after which the server ends the transaction of a writer that does not continue
_ANSWERS_WITHIN = 10_000  #: milliseconds in which a server's machine must confirm what it was sent

TABLES = (
    "CREATE TABLE {schema}.stored_events ("
    'originator_id text COLLATE "C" NOT NULL, originator_version bigint NOT NULL, topic text NOT NULL, '
    "state bytea NOT NULL, notification_id bigint NOT NULL UNIQUE, PRIMARY KEY (originator_id, originator_version))",
    "CREATE TABLE {schema}.appends ("
    "position bigint PRIMARY KEY, format integer NOT NULL, epoch bigint NOT NULL, digest text NOT NULL)",
    "CREATE TABLE {schema}.head ("
    "format integer NOT NULL, epoch bigint NOT NULL, position bigint NOT NULL, digest text NOT NULL)",
    "INSERT INTO {schema}.head VALUES ({format}, 0, 0, {genesis})",
)

_TABLE_NAMES = {"events": "stored_events", "by_stream": "stored_events", "appends": "appends", "head": "head"}

# The prefix of PostgreSQL's SQLSTATE -> the log's error, its reason, and the fix. The first match applies.
_FAILURES: tuple[tuple[str, type[LogError], str], ...] = (
    ("53100", LogUnavailable, "the server has no space left; free some and try again"),
    ("53", LogUnavailable, "the server lacks a resource; try again later"),
    ("25006", LogUnavailable, "the server is read-only now; use its primary"),
    ("42501", LogUnavailable, "the user lacks the privilege; GRANT it, or name another user"),
    ("42P01", LogDamaged, "one of its tables is missing; restore it from a backup"),
    ("3F000", LogDamaged, "its schema is missing; restore it from a backup"),
    ("55P03", LogUnavailable, f"another process was writing it for over {LOCK_TIMEOUT} s; try again"),
    ("23", LogDamaged, "it has events after its head; restore it from a backup"),
    ("XX", LogDamaged, "the server found its files damaged; restore it from a backup"),
    ("54", LogError, "an event exceeds PostgreSQL's limit of 1 GB"),
    ("", LogUnavailable, "the server failed; fix the reported problem, then try again"),
)


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, PersistenceError) as error:
        cause = error.__cause__ if isinstance(error, PersistenceError) else error
        if cause is None:  # ``insert_events`` rejected a version
            raise
        if isinstance(cause, PoolClosed):
            raise LogUnavailable(f"{name} was closed; open it again") from error
        if isinstance(cause, PoolTimeout):
            raise LogUnavailable(f"{name}: the server does not answer; try again when it does") from error
        state = getattr(cause, "sqlstate", None) or ""
        kind, reason = next((kind, reason) for start, kind, reason in _FAILURES if state.startswith(start))
        raise kind(f"{name}: {reason} (PostgreSQL: {str(cause).strip()})") from error


class PostgresRecorder(SqlRecorder):
    def __init__(self, datastore: PostgresDatastore, name: str) -> None:
        self.name = name
        self._datastore = datastore
        self._of_thread = local()
        names = {name: Identifier(datastore.schema, table) for name, table in _TABLE_NAMES.items()}
        self._names = {**names, "position": Identifier("notification_id"), "schema": Identifier(datastore.schema)}
        self._insert = self._sql(
            "INSERT INTO {schema}.stored_events (notification_id, originator_id, originator_version, topic, state) "
            "SELECT * FROM unnest(%b::bigint[], %b::text[], %b::bigint[], %b::text[], %b::bytea[])"
        )

    @contextmanager
    def begin_write(self) -> Iterator[None]:
        with self._transaction() as cursor:
            cursor.execute(self._sql("SELECT 1 FROM {head} FOR UPDATE"))
            self._of_thread.writer = cursor
            try:
                yield
            finally:
                self._of_thread.writer = None

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Cursor[Any]]:
        writer = getattr(self._of_thread, "writer", None)
        if writer is not None:
            yield writer
            return
        commits = False
        try:
            with _translate_errors(self.name), self._datastore.transaction(commit=True) as cursor:
                yield cursor
                commits = True
        except LogUnavailable as error:
            if commits:  # the connection may have failed after the server stored it
                raise InDoubt(str(error)) from error
            raise

    def append(self, old: Head, new: Head, batch: AppendBatch) -> None:
        with self._transaction() as cursor:
            # First, because this locks the head: another append waits here, and then its own head no longer matches.
            cursor.execute(
                self._sql(
                    "UPDATE {schema}.head SET format=%s, epoch=%s, position=%s, digest=%s "
                    "WHERE epoch=%s AND position=%s AND digest=%s"
                ),
                (FORMAT, new.epoch, new.position, new.digest, old.epoch, old.position, old.digest),
            )
            if cursor.rowcount != 1:
                raise Fenced(f"{self.name}: another writer has appended; refresh, read the new events and decide again")
            cursor.execute(self._insert, [list(range(batch.first, batch.last + 1)), *batch[1:]])
            statement = self._sql("INSERT INTO {schema}.appends VALUES (%s, %s, %s, %s)")
            cursor.execute(statement, (new.position, FORMAT, new.epoch, new.digest))

    def last_versions(self, streams: Collection[str]) -> dict[str, int]:
        rows = self._select(
            "SELECT originator_id, MAX(originator_version) FROM {schema}.stored_events "
            "WHERE originator_id = ANY(%s) GROUP BY originator_id",
            sorted(streams),
        )
        return dict(rows)

    def integrity_problems(self) -> list[str]:
        return []

    def close(self) -> None:
        self._datastore.close()

    def make_tables(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(self._sql("CREATE SCHEMA IF NOT EXISTS {schema}"))
        for statement in TABLES:
            connection.execute(self._sql(statement))

    def _sql(self, text: str) -> Composed:
        return SQL(text.replace("?", "%s")).format(format=FORMAT, genesis=GENESIS, **self._names)

    def _select(self, text: str, *parameters: object) -> list[Any]:
        writer = getattr(self._of_thread, "writer", None)
        with (
            _translate_errors(self.name),
            nullcontext(writer.connection) if writer else self._datastore.get_connection() as connection,
            connection.cursor(binary=True, row_factory=tuple_row) as cursor,
        ):
            return cursor.execute(self._sql(text), parameters).fetchall()


def open_postgres(url: str, schema: str, *, create: bool, read_only: bool) -> PostgresRecorder | None:
    """Return the log in `schema` of the database at `url`; if there is none, create one if `create` is true, otherwise
    return None. Raise `LogError` if PostgreSQL rejects the URL, `LogUnavailable` if the server cannot be used."""
    options, name = connection_options(url, read_only), name_of(url, schema)
    # The URL's options may change how long to wait for another writer, but not that appends are durable.
    timeouts = f"-c lock_timeout={LOCK_TIMEOUT}s -c idle_in_transaction_session_timeout={_OPEN_TIMEOUT}s"
    options["options"] = " ".join(filter(None, [timeouts, options.get("options"), "-c synchronous_commit=on"]))
    options.setdefault("application_name", "poolbook")
    with _translate_errors(name), psycopg.connect(**options) as connection:  # type: ignore[arg-type]  # values are texts
        is_present = _is_log(connection, schema)
        if not is_present and not (create and not read_only):
            return None
        tables = _tables(options, schema, name, read_only)
        if not is_present:
            _make(connection, tables, schema)
    return tables


def name_of(url: str, schema: str) -> str:
    """Return the log's name in messages, which also names its mark: its URL without user and password."""
    options = _options(url)
    server = f"{options.get('host', '')}:{options.get('port', '')}".rstrip(":")
    return f"postgresql://{server}/{options.get('dbname', '')}?schema={schema}"


def connection_options(url: str, read_only: bool = False) -> dict[str, str]:
    """Return the options of a connection to the server at `url`: if the URL names several, to the one that accepts
    writes. A server whose machine has failed is noticed in seconds."""
    options = _options(url)
    options.setdefault("connect_timeout", str(CONNECT_TIMEOUT))
    options.setdefault("tcp_user_timeout", str(_ANSWERS_WITHIN))
    options.setdefault("keepalives_idle", str(CONNECT_TIMEOUT))
    options.setdefault("keepalives_interval", "2")
    if not read_only and "," in options.get("host", ""):
        options.setdefault("target_session_attrs", "read-write")
    return options


def has_synchronous_standby(url: str) -> bool:
    """Return True if the server at `url` acknowledges a commit only after a standby has stored it. Raise
    `LogUnavailable` if the server does not answer."""
    options = connection_options(url)
    with _translate_errors(safe_url(url)), psycopg.connect(**options) as connection:  # type: ignore[arg-type]
        return connection.execute("SHOW synchronous_standby_names").fetchone() != ("",)


def _options(url: str) -> dict[str, str]:
    try:
        return {key: str(value) for key, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.ProgrammingError as error:
        form = "postgresql://user@host:port/database?schema=name"
        raise LogError(f"invalid PostgreSQL URL ({str(error).strip()}); use {form}") from None


def _tables(options: dict[str, str], schema: str, name: str, read_only: bool) -> PostgresRecorder:
    given = {key: options.get(key, "") for key in ("dbname", "host", "port", "user", "password")}
    datastore = PostgresDatastore(
        *given.values(), schema=schema, max_overflow=3, connect_timeout=CONNECT_TIMEOUT, originator_id_type="text"
    )
    extra = {key: value for key, value in options.items() if key not in given}
    if read_only:
        extra["options"] += " -c default_transaction_read_only=on"
    datastore.pool.kwargs = {**datastore.pool.kwargs, **extra}  # type: ignore[dict-item]  # opened on first use
    return PostgresRecorder(datastore, name)


def _is_log(connection: psycopg.Connection[Any], schema: str) -> bool:
    # Query the catalogue, since the server may cache for a while that a name does not exist.
    query = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname=%s AND tablename='head'"
    return connection.execute(query, (schema,)).fetchone() is not None


def _make(connection: psycopg.Connection[Any], tables: PostgresRecorder, schema: str) -> None:
    # Two processes may create the same log at once: the second one then finds it.
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('poolbook'), hashtext(%s))", (schema,))
    if not _is_log(connection, schema):
        tables.make_tables(connection)
