"""Golden: docs/why.md shows the commands' output, and the rules that `verify` checks."""

from __future__ import annotations

from .why_page import PAGE, fill


def test_the_page_shows_the_commands_output_and_every_rule() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "```transcript\n" in page
    assert fill(page) == page, "docs/why.md is out of date: run python docs/generate.py"
