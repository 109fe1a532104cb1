"""Specification: which transitions a policy at work takes; and that the page on playing tells of every word."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.domain.state_machines import DIALECTS
from poolbook.replay.scenario.parser import HEADS
from poolbook.replay.scenario.statements import OTHERS
from poolbook.replay.scenario.verbs import OPTIONS, VERBS

from .test_transcripts import CASES, played

PAGE = Path(__file__).parents[2] / "docs" / "play.md"
ELSEWHERE = {
    # dialect: rows that no scenario takes, and why
    "manual": set[str](),
    "htcondor-25": {
        "2a",  # a dynamic slot that ends is told as its end, not as a transition
        "29",  # the real startd's has three ways on: 29a, 29b and 29c
        "35",  # the real startd's has two halves: 35a and 35b
    },
}


@pytest.mark.soak
@pytest.mark.parametrize("dialect", ELSEWHERE)
def test_every_transition_is_taken_by_a_policy_in_some_transcript(dialect: str) -> None:
    taken = {row for name, told in CASES if told == dialect for row in played(name, told)[0].transcript.rows}
    assert {row.number for row in DIALECTS[dialect].slot_rows} - taken == ELSEWHERE[dialect]


def test_the_page_tells_of_every_word_of_the_language() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [word for word in (*HEADS, *VERBS, *OTHERS) if f"`{word}" not in page and f" {word} " not in page] == []
    flags = [flag for verb in VERBS.values() for flag in verb.flags]
    assert [word for word in (*flags, *OPTIONS) if word not in page] == []
