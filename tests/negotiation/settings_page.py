"""The table of the negotiator's settings in docs/configuration.md."""

from __future__ import annotations

from pathlib import Path

from poolbook.domain.state.pool_settings import NEGOTIATOR

from .. import markdown_tables

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def fill(page: str) -> str:
    """Return docs/configuration.md with its table of the negotiator's settings generated again."""
    rows = ((f"`{name}`", f"`{setting.default}`", setting.meaning) for name, setting in NEGOTIATOR.items())
    tables = {"negotiator-settings": markdown_tables.table(("setting", "default", "meaning"), rows)}
    return markdown_tables.fill(page, tables)
