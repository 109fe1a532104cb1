"""Checks that each answer of ``why`` can be read aloud."""

from __future__ import annotations

import re

from poolbook.replay.narration.sentence_tables import ADVICE, CAUSES
from poolbook.replay.narration.sentences import MOST_LINES, Explanation

LONGEST = 200
OPPOSITES = (
    ("began to drain", "drain was cancelled"),
    ("began to drain", "drain ended"),
    ("The startd suspended", "The startd continued"),
    ("began to retire", " continue: "),
    ("changed to Backfill", "left Backfill"),
    ("is waiting for it", "took over the slot"),
    ("is waiting for it", "claimed it."),
    ("holder is silent", "reported again"),
    ("was reserved for job", "no longer reserved for job"),
)
"""Pairs of sentences that may not be in one short answer about a slot: the second undid the first."""
EXPRESSION = re.compile(r"&&|\|\||[=!]=|[<>]=|=[?!]=|TARGET\.|MY\.")


def check(name: str, answer: Explanation) -> None:
    """Check that an answer is short, begins with the thing and its state, gives no cause without its effect and no
    expression, and ends with what the user can do (for a cluster: if anything)."""
    lines = answer.texts
    assert len(lines) <= MOST_LINES, lines
    assert re.match(rf"(Job|Slot|Cluster) {re.escape(name)} (has|was|completed|is)\b", lines[0]), lines
    for line in lines:
        assert len(line) <= LONGEST, line
        assert re.search(r"[^.](\.|\.{3})$", line), line  # three if a long text was shortened
        assert line.partition(": ")[0].rstrip(".") not in CAUSES.values(), f"a cause without its effect: {line}"
        assert not EXPRESSION.search(line), line
    check_consistency(lines)
    assert answer.lines[-1].code in ADVICE or lines[0].startswith("Cluster"), lines


def check_consistency(lines: list[str]) -> None:
    """Check that no two sentences give one effect two causes, and that none reports what another says was undone."""
    effects = [line.partition(": ")[0] for line in lines]
    assert len(set(effects)) == len(effects), lines
    for stated_effect, undone_effect in OPPOSITES:
        assert not (any(stated_effect in line for line in lines) and any(undone_effect in line for line in lines)), (
            lines
        )
