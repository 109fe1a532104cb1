"""Golden: the page about the views is true: its example prints what stands there, and its tables are the tables."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from poolbook.projections.schema import TABLES

PAGE = Path(__file__).parents[2] / "docs" / "views.md"


def test_the_example_prints_what_the_page_says() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, verbose=False)
    assert (failed, tried > 8) == (0, True)


def test_the_page_lists_the_tables_and_their_columns() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## The tables")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
    listed = {row[1].strip(" `"): re.findall(r"`(\w+)`", row[2]) for row in rows}
    assert listed == {name: list(table.columns) for name, table in TABLES.items()}
