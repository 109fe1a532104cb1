"""Golden: each cause and each flag of an event has its text in one table; docs/events.md has them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook import events
from poolbook.domain.events import CAUSE_CODES, CLAIM_FLAG_CODES
from poolbook.replay.narration import sentence_tables


def test_each_cause_and_each_flag_has_a_text() -> None:
    assert sentence_tables.CAUSES.keys() == CAUSE_CODES
    assert tuple(sentence_tables.CLAIM_FLAGS) == CLAIM_FLAG_CODES


def test_the_page_of_events_has_the_texts_that_the_commands_print() -> None:
    assert events.CAUSES is sentence_tables.CAUSES
    assert events.CLAIM_FLAGS is sentence_tables.CLAIM_FLAGS
    page = Path("docs/events.md").read_text(encoding="utf-8")
    for code, texts in {**sentence_tables.CAUSES, **sentence_tables.CLAIM_FLAGS}.items():
        assert f"| `{code}` | {texts} |" in page


@pytest.mark.parametrize(
    ("cause", "requester", "expected"),
    [
        ("vacate_command", {}, "a user asked for the slot or job to be vacated"),
        ("vacate_command", {"by": "root", "thing": "slot1@h"}, "root asked for slot1@h to be vacated"),
        ("user_hold", {"by": "alice", "thing": "1.0"}, "alice asked for it to be held"),
        ("better_match_taken", {"by": "root"}, "the waiting preempting claim takes over the slot"),
        ("of a later version", {}, "of a later version"),
    ],
)
def test_a_cause_names_the_requester_if_known(cause: str, requester: dict[str, str], expected: str) -> None:
    assert sentence_tables.cause_words(cause, **requester) == expected


@pytest.mark.parametrize(
    ("cause", "row", "expected"),
    [
        ("drain_command", "start", "root asked for the machine to be drained"),
        ("drain_command", "cancel", "root asked for the drain to be cancelled"),
        ("reconfigured", "cancel", "the machine's configuration was read again"),
        ("defrag_cancel", "cancel", "the defragmentation found DEFRAG_CANCEL_REQUIREMENTS true for the machine"),
        ("drained", "resume", "every slot of the machine was drained"),
    ],
)
def test_each_end_of_a_drain_has_its_own_cause(cause: str, row: str, expected: str) -> None:
    assert sentence_tables.cause_words(cause, row, by="root") == expected
