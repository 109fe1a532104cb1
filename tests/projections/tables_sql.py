"""Write ``projections/tables.sql``: ``python -m tests.projections.tables_sql``."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlite_utils import Database

from poolbook.domain.state_machines.job_rows import JOB_STATUS_NUMBERS_HTCONDOR_25
from poolbook.projections.schema import schemas

FILE = Path(__file__).parents[2] / "projections" / "tables.sql"


def statements() -> str:
    """Return the statements with which sqlite-utils creates the tables and SQL views of ``tables.txt``, one per
    line."""
    with closing(sqlite3.connect(":memory:")) as connection:
        database = Database(connection)
        for name, table in schemas("table").items():
            key = table.key if len(table.key) > 1 else next(iter(table.key), None)
            new_table = database.table(name).create(table.columns, pk=key, not_null=set(table.columns))
            for index in table.indexes:
                new_table.create_index(index, index_name=f"{name}_by_{index[0]}")
        numbers = " ".join(f"WHEN {number} THEN '{name}'" for name, number in JOB_STATUS_NUMBERS_HTCONDOR_25.items())
        for name, view in schemas("view").items():
            database.create_view(name, view.sql.format(status=f"CASE j.status {numbers} END"))
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
        return "".join(re.sub(r"\s+", " ", sql) + "\n" for (sql,) in rows)


if __name__ == "__main__":
    FILE.write_text(statements())
