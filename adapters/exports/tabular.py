"""Write the tables of an export as Parquet, CSV or JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ...domain.errors import PoolbookError
from ...replay.exports.tables import TABLES, VERSION, Column, Row
from ...replay.narration.formatting import iso

if TYPE_CHECKING:
    import pyarrow

_BATCH = 50_000  #: rows in memory at a time


class ExportError(PoolbookError):
    """A log cannot be exported: a library is missing. The message names the fix."""


Writer = Callable[[str, Iterable[Row], BinaryIO, str], int]
"""Writes the rows of a table, by its name, to a file, with the log's id; returns the number of rows."""


def write_parquet(table: str, rows: Iterable[Row], file: BinaryIO, log: str) -> int:
    """Write a Parquet file. Instants are timestamps in microseconds with the time zone UTC. The file's metadata contain
    the log's id and the version of the schema."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ExportError(
            "Parquet files need pyarrow, which is not installed: pip install 'poolbook[export]'; or use csv or jsonl"
        ) from None
    metadata = {"poolbook_schema": str(VERSION), "poolbook_table": table, "poolbook_log": log}
    schema = pyarrow.schema([_field(column) for column in TABLES[table].columns], metadata)
    count = 0
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for batch in _batches(rows):
            columns = [
                pyarrow.array(values, field.type)
                for values, field in zip(zip(*batch, strict=True), schema, strict=True)
            ]
            writer.write_batch(pyarrow.record_batch(columns, schema=schema))
            count += len(batch)
    return count


def _field(column: Column) -> pyarrow.Field[Any]:
    import pyarrow

    kinds = {
        "str": pyarrow.string(), "int": pyarrow.int64(), "float": pyarrow.float64(),
        "time": pyarrow.timestamp("us", tz="UTC"),
    }  # fmt: skip
    return pyarrow.field(column.name, kinds[column.kind], nullable=False, metadata={"description": column.meaning})


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, _BATCH)):
        yield batch


def write_csv(table: str, rows: Iterable[Row], file: BinaryIO, log: str) -> int:
    """Write a CSV file with a heading. Instants are in ISO 8601, UTC, with microseconds."""
    from io import TextIOWrapper

    text = TextIOWrapper(file, "utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(column.name for column in TABLES[table].columns)
    count = 0
    for row in _with_texts(table, rows):
        writer.writerow(row)
        count += 1
    text.flush()
    text.detach()
    return count


def write_json_lines(table: str, rows: Iterable[Row], file: BinaryIO, log: str) -> int:
    """Write a JSON object per line. Instants are in ISO 8601, UTC; columns that contain JSON are objects."""
    names = [column.name for column in TABLES[table].columns]
    nested = [names.index(name) for name in ("event", "statistics") if name in names]
    count = 0
    for row in _with_texts(table, rows):
        count += 1
        values = list(row)
        for index in nested:
            values[index] = json.loads(str(values[index]))
        file.write(json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False).encode() + b"\n")
    return count


def _with_texts(table: str, rows: Iterable[Row]) -> Iterator[Row]:
    times = [index for index, column in enumerate(TABLES[table].columns) if column.kind == "time"]
    for row in rows:
        values = list(row)
        for index in times:
            values[index] = iso(int(str(values[index])))
        yield tuple(values)


FORMATS: Final[dict[str, Writer]] = {"parquet": write_parquet, "csv": write_csv, "jsonl": write_json_lines}
"""The formats of tables, by name, which is also the extension of the files."""
