"""The tables of docs/log.md, drawn from their description."""

from __future__ import annotations

from poolbook.projections.schema import schemas

from .. import markdown_tables


def _drawn(kind: str) -> str:
    rows = []
    for name, table in schemas(kind).items():
        for column, meaning in {"": table.description, **table.meanings}.items():
            rows.append((f"`{column}`" if column else f"**{name}**", meaning))
    return markdown_tables.table((kind, "is"), rows)


def fill(page: str) -> str:
    """Return docs/log.md with its generated tables."""
    return markdown_tables.fill(page, {"tables": _drawn("table"), "views": _drawn("view")})
