"""``poolbook export``: write a log in formats of other tools; ``poolbook sql``: query the views."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import BinaryIO, Final

from ...replay.exports.tables import TABLES, Row, rows_of
from ...replay.narration.formatting import counted
from ..condor_tools.layout import text_table
from ..condor_tools.options import Arguments, ToolError, UsageError, command_table, parse
from ..condor_tools.terminal import ProgressLine
from ..exports.tabular import FORMATS
from ..runtime.queries import Queries
from .common import selected_log
from .log_commands import PROGRESS_INTERVAL
from .time_window import Window, queries_at, window_of

EXPORT = command_table("export")
SQL = command_table("sql")
OTHER_FORMATS: Final = ("swf", "ocel", "perfetto")  #: the formats that are one file
DAEMON_LOGS: Final = "daemon-logs"  #: the format that is a directory of logs


def export(argv: Sequence[str]) -> int:
    arguments = parse(EXPORT, argv)
    formats = (*FORMATS, *OTHER_FORMATS, DAEMON_LOGS)
    if len(arguments.words) != 2 or arguments.words[0] not in formats:
        raise UsageError(
            f"poolbook export: specify a format ({', '.join(formats)}) and the output, for example `poolbook export "
            "parquet pool/`"
        )
    format_name, output = arguments.words
    with Queries(selected_log(arguments)) as queries:
        window = window_of("export", arguments, "from", "to", queries.log)
        if format_name in FORMATS:
            _export_tables(queries, window, format_name, output, arguments)
            return 0
        if arguments.has("only"):
            raise UsageError(f"poolbook export {format_name}: -only is only for {', '.join(FORMATS)}; omit it")
        if format_name == DAEMON_LOGS:
            _export_daemon_logs(queries, window, output, arguments)
            return 0
        if output == "-" and format_name == "ocel":
            raise UsageError("poolbook export ocel: the output is a database and cannot be printed; name a file")
        if output == "-":
            with _standard_output() as file:
                _write_other(format_name, queries, window, file)
            return 0
        with _new_file(output, arguments.has("replace")) as path:
            if format_name == "ocel":
                count = _write_ocel(queries, window, path)
            else:
                with open(path, "wb") as file:
                    count = _write_other(format_name, queries, window, file)
        print(f"{output}: {count}")
    return 0


def _export_tables(queries: Queries, window: Window, format_name: str, output: str, arguments: Arguments) -> None:
    names = arguments.value("only", ",".join(TABLES)).split(",")
    unknown = [name for name in names if name not in TABLES]
    if unknown:
        raise UsageError(f"poolbook export -only {unknown[0]}: unknown table; use {', '.join(TABLES)}")
    write = FORMATS[format_name]
    if output == "-":
        if len(names) != 1 or format_name == "parquet":
            raise UsageError("poolbook export: `-` prints one table as csv or jsonl; name it with -only")
        with _standard_output() as file:
            write(names[0], rows_of(names[0], queries.log, *window), file, queries.log.id)
        return
    try:
        os.makedirs(output, exist_ok=True)
    except OSError as error:
        raise ToolError(
            f"poolbook export: {output} is not a directory that can be created: {error.strerror}; name another one"
        ) from None
    for name in names:
        target = os.path.join(output, f"{name}.{format_name}")
        with _new_file(target, arguments.has("replace")) as path, open(path, "wb") as file:
            count = write(name, _with_progress(target, rows_of(name, queries.log, *window)), file, queries.log.id)
        print(f"{target}: {counted(count, 'row')}")


def _with_progress(target: str, rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the rows, and show their number on a terminal."""
    progress = ProgressLine(PROGRESS_INTERVAL)
    for number, row in enumerate(rows):
        if number % 1000 == 0 and progress.is_due():
            progress.show_text(f"{target}: {number:,} rows")
        yield row
    progress.end()


def _write_ocel(queries: Queries, window: Window, path: str) -> str:
    from ...replay.accounts.intervals import slot_intervals
    from ..exports.ocel import write_ocel

    transitions = rows_of("transitions", queries.log, *window)
    with open(path, "wb"):
        pass  # SQLite does not say why it cannot create a file
    return counted(write_ocel(transitions, slot_intervals(queries.log, *window), path), "event")


def _write_other(format_name: str, queries: Queries, window: Window, file: BinaryIO) -> str:
    from ...replay.accounts.intervals import slot_intervals

    if format_name == "swf":
        from ..exports.swf import write_swf

        return counted(write_swf(queries.log, file, *window), "job")
    from ..exports.perfetto import write_trace

    return counted(write_trace(slot_intervals(queries.log, *window), file, queries.log.id), "slice")


def _export_daemon_logs(queries: Queries, window: Window, output: str, arguments: Arguments) -> None:
    from ..runtime.configuration import load
    from ..runtime.daemon_logs.log_settings import log_settings
    from ..runtime.daemon_logs.writer import DaemonLogError, DaemonLogWriter

    if queries.imported:
        raise ToolError("poolbook export daemon-logs: this log was imported from such logs; use these")
    if output == "-":
        raise UsageError("poolbook export daemon-logs: each daemon has its own log; name a directory")
    if os.path.isdir(output) and os.listdir(output) and not arguments.has("replace"):
        raise ToolError(
            f"poolbook export: {output} is not empty; name another directory, or replace its logs with -replace"
        )
    settings = log_settings(lambda daemon: load(arguments.values("config"), subsystem=daemon), output)
    assert settings is not None, "all logs are in the directory"
    for warning in settings.warnings:
        print(f"poolbook: warning: {warning}", file=sys.stderr)
    writer = DaemonLogWriter(settings, window=window)
    try:
        writer.write(queries.log.read())
    except DaemonLogError as error:
        raise ToolError(f"poolbook export: {error}") from None
    for path, size in sorted(writer.sizes.items()):
        print(f"{path}: {counted(size, 'byte')}")


@contextmanager
def _standard_output() -> Iterator[BinaryIO]:
    """Give a file whose content is printed: unchanged or, on a terminal, as text whose control characters are
    escaped."""
    if not sys.stdout.isatty():
        yield sys.stdout.buffer
        return
    content = BytesIO()
    yield content
    sys.stdout.write(content.getvalue().decode())


@contextmanager
def _new_file(output: str, is_replaced: bool) -> Iterator[str]:
    """Give the path of a temporary file, which replaces the output at the end, unless an error occurs."""
    if os.path.exists(output) and not is_replaced:
        raise ToolError(f"poolbook export: {output} exists; name another file, or replace it with -replace")
    path = f"{output}.new"
    with suppress(FileNotFoundError):
        os.unlink(path)
    try:
        yield path
        os.replace(path, output)
    except OSError as error:
        raise ToolError(f"poolbook export: {output} cannot be written: {error.strerror}; name another file") from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


# -- sql ---------------------------------------------------------------------------------------------------------------


def sql(argv: Sequence[str]) -> int:
    import sqlite3

    arguments = parse(SQL, argv)
    if len(arguments.words) != 1:
        raise UsageError("poolbook sql: give one statement in quotes, for example `poolbook sql 'SELECT * FROM queue'`")
    from sqlite_utils import Database

    with queries_at("sql", arguments, selected_log(arguments)) as queries:
        connection = queries.views.connection
        connection.execute("PRAGMA query_only = 1")
        try:
            rows = Database(connection).query(arguments.words[0])
            _PRINT[next(iter(name for name in _PRINT if arguments.has(name)), "")](rows)
        except (sqlite3.Error, ValueError) as error:
            reason = "the statement returns no rows, but `sql` only reads" if type(error) is ValueError else str(error)
            names = ", ".join(
                name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")
            )
            raise ToolError(
                f"poolbook sql: {reason.rstrip('.')}; the views are {names}, and `SELECT * FROM documentation` "
                "lists all columns"
            ) from None
    return 0


def _print_table(rows: Iterator[dict[str, object]]) -> None:
    all_rows = list(rows)
    if not all_rows:
        print("No rows.")
    else:
        lines = text_table(list(all_rows[0]), [list(map(_cell, row.values())) for row in all_rows])
        print("\n".join(line.rstrip("\n") for line in lines))


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def _print_csv(rows: Iterator[dict[str, object]]) -> None:
    writer = csv.writer(sys.stdout)
    for number, row in enumerate(rows):
        if not number:
            writer.writerow(row)
        writer.writerow(row.values())


def _print_json(rows: Iterator[dict[str, object]]) -> None:
    print(json.dumps(list(rows), indent=2, default=_hexadecimal))


def _print_json_lines(rows: Iterator[dict[str, object]]) -> None:
    for row in rows:
        print(json.dumps(row, default=_hexadecimal))


def _hexadecimal(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


_PRINT: Final[dict[str, Callable[[Iterator[dict[str, object]]], None]]] = {
    "csv": _print_csv, "json": _print_json, "jsonl": _print_json_lines, "": _print_table,
}  # fmt: skip
