"""Golden: what docs/why.md shows is what comes out, and its rules are those that are judged by."""

from __future__ import annotations

import re
from pathlib import Path

from poolbook.replay.validation import RULES

from .test_transcripts import replayed

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "why.md").read_text(encoding="utf-8")


def test_the_transcript_of_the_page_is_what_comes_out() -> None:
    (shown,) = re.findall(r"```transcript\n(.*?)```", PAGE, re.DOTALL)
    assert replayed(shown, words=True) == shown


def test_the_page_has_every_rule_with_its_words() -> None:
    assert dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)) == RULES
