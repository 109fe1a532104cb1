"""The transcript and the table of rules in docs/why.md."""

from __future__ import annotations

import re
from pathlib import Path

from poolbook.replay.validation import RULES

from .. import markdown_tables
from .test_transcripts import replayed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "why.md"
_TRANSCRIPT = re.compile(r"(?<=```transcript\n).*?(?=```)", re.DOTALL)


def fill(page: str) -> str:
    """Return docs/why.md with its transcript replayed and its table of rules regenerated."""
    page = _TRANSCRIPT.sub(lambda match: replayed(match[0], as_text=True), page)
    rows = ((f"`{name}`", meaning) for name, meaning in RULES.items())
    return markdown_tables.fill(page, {"rules": markdown_tables.table(("rule", "what must hold"), rows)})
