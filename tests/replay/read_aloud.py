"""What each answer of ``why`` must be, so that it can be read aloud."""

from __future__ import annotations

import re

from poolbook.replay.narration.causes import CAUSES
from poolbook.replay.narration.sentences import MOST_LINES, Answer
from poolbook.replay.narration.words import ADVICE

LONGEST = 200
EXPRESSION = re.compile(r"&&|\|\||[=!]=|[<>]=|=[?!]=|TARGET\.|MY\.")


def check(name: str, answer: Answer) -> None:
    """It is short, begins with the thing and its state, has no cause without its effect and no expression, and ends
    with what can be done: of a cluster, where something can."""
    lines = answer.texts
    assert len(lines) <= MOST_LINES, lines
    assert re.match(rf"(Job|Slot|Cluster) {re.escape(name)} (has|was|completed|is)\b", lines[0]), lines
    for line in lines:
        assert len(line) <= LONGEST, line
        assert re.search(r"[^.](\.|\.{3})$", line), line  # three where a long text was shortened
        assert line.partition(": ")[0].rstrip(".") not in CAUSES.values(), f"a cause without its effect: {line}"
        assert not EXPRESSION.search(line), line
    assert answer.lines[-1].code in ADVICE or lines[0].startswith("Cluster"), lines
