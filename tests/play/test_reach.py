"""Specification: the transitions that policies take in the transcripts; the page on playing covers every word."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.domain.state_machines import DIALECTS
from poolbook.replay.scenario.parser import HEADS
from poolbook.replay.scenario.statements import OTHERS
from poolbook.replay.scenario.verbs import OPTIONS, VERBS

from .test_transcripts import CASES, play_transcript

PAGE = Path(__file__).parents[2] / "docs" / "play.md"
NOT_TAKEN = {
    # dialect: rows that no scenario takes, and why
    "manual": set[str](),
    "htcondor-25": {
        "2a",  # the end of a dynamic slot is reported as its end, not as a transition
        "29",  # the real startd has three targets: 29a, 29b and 29c
        "35",  # the real startd has two halves: 35a and 35b
    },
}


@pytest.mark.soak
@pytest.mark.parametrize("dialect", NOT_TAKEN)
def test_every_transition_is_taken_by_a_policy_in_some_transcript(dialect: str) -> None:
    rows = {
        row
        for name, case_dialect in CASES
        if case_dialect == dialect
        for row in play_transcript(name, case_dialect)[0].transcript.rows
    }
    assert {row.number for row in DIALECTS[dialect].slot_rows} - rows == NOT_TAKEN[dialect]


def test_the_page_covers_every_word_of_the_language() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [word for word in (*HEADS, *VERBS, *OTHERS) if f"`{word}" not in page and f" {word} " not in page] == []
    flags = [flag for verb in VERBS.values() for flag in verb.flags]
    assert [word for word in (*flags, *OPTIONS) if word not in page] == []
