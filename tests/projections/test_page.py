"""Golden: the page about the views is correct: its example prints the output shown, and its tables are the
database's."""

from __future__ import annotations

import doctest
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlite_utils import Database

from poolbook.domain.state_machines import HTCONDOR_25
from poolbook.projections.schema import create, schemas

from .page import fill
from .tables_sql import FILE, statements

PAGE = Path(__file__).parents[2] / "docs" / "log.md"


def test_the_example_prints_the_output_on_the_page() -> None:
    failures, tried = doctest.testfile(str(PAGE), module_relative=False, verbose=False)
    assert (failures, tried > 8) == (0, True)


def test_the_page_lists_the_tables_and_their_columns() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert fill(page) == page, "docs/log.md is out of date: run python docs/generate.py"


def test_the_database_has_the_described_tables() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for _ in range(2):  # the second time, all of it exists
            create(connection)
        database = Database(connection)
        tables = {name: [column.name for column in database.table(name).columns] for name in database.table_names()}
        views = {name: [column.name for column in database.view(name).columns] for name in database.view_names()}
        assert tables == {name: [*table.columns] for name, table in schemas("table").items()}
        assert views.pop("documentation") == ["name", "column", "meaning"]
        assert views == {name: [*view.columns] for name, view in schemas("view").items()}
        rows = {(row["name"], row["column"]): row["meaning"] for row in database.query("SELECT * FROM documentation")}
        assert rows["jobs", "first"] == schemas("table")["jobs"].meanings["first"]
        assert all(table.description == rows[name, ""] for name, table in schemas("view").items())


def test_the_statements_are_those_of_sqlite_utils() -> None:
    assert FILE.read_text() == statements()


def test_a_view_names_every_status_of_a_job() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        create(connection)
        connection.execute("INSERT INTO clusters VALUES (1, 'alice', 'alice', '', 0, 9, 1, '{}', '')")
        for number in HTCONDOR_25.job_status_numbers.values():
            connection.execute("INSERT INTO jobs VALUES (1, ?, ?, ?, '', '{}')", (number, number, number))
        first_by_status = dict(connection.execute("SELECT status, first FROM queue"))
        assert first_by_status == HTCONDOR_25.job_status_numbers
