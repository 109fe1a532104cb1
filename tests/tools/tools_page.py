"""The table of rejected options in docs/tools.md."""

from __future__ import annotations

from pathlib import Path

from poolbook.adapters.cli import config

from .. import markdown_tables
from .test_options import COMMANDS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tools.md"


def fill(page: str) -> str:
    """Return docs/tools.md with its table of rejected options regenerated."""
    rows: dict[tuple[str, str], list[str]] = {}
    for command in (*COMMANDS.values(), config.COMMAND):
        for option in command.options:
            if option.refused:
                rows.setdefault((command.name, option.refused), []).append(f"`-{option.name}`")
    cells = ((f"`{command}`", ", ".join(options), reason) for (command, reason), options in rows.items())
    return markdown_tables.fill(
        page, {"refused-options": markdown_tables.table(("command", "options", "instead"), cells)}
    )
