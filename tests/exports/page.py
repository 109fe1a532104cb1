"""The section of docs/export.md about the tables, from replay/exports/tables.txt."""

from __future__ import annotations

import re

from poolbook.replay.exports.tables import TABLES

_KINDS = {"str": "text", "int": "integer", "float": "number", "time": "time"}


def section() -> str:
    """Return a part with a table of columns for each table of an export."""
    parts = []
    for name, table in TABLES.items():
        rows = [f"| `{column.name}` | {_KINDS[column.kind]} | {column.meaning} |" for column in table.columns]
        about = table.description[0].upper() + table.description[1:]
        parts.append(
            "\n".join([f"### {name}", "", f"{about}.", "", "| Column | Type | Meaning |", "|---|---|---|", *rows])
        )
    return "\n\n".join(parts)


def fill(page: str) -> str:
    """Return the page with the current section."""
    marked = re.compile(r"(<!-- tables -->\n).*?(<!-- end -->)", re.DOTALL)
    return marked.sub(lambda match: f"{match[1]}{section()}\n\n{match[2]}", page)
