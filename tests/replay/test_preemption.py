"""Golden: what a log may record about jobs that are matched with a claimed slot, and how `why` explains it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.replay.listing.members import line, members
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour
from poolbook.replay.why.answer import why

from ..domain.preempting import DIALECTS, RETIRES, SLOT, contested, match_slot
from .edits import Edit, change, drop, repeat, violations_after


@cache
def sound(dialect: str) -> tuple[e.Event, ...]:
    """Bob's first job waits for alice's slot, and is held; then his second waits, and gets it."""
    pool = contested(dialect, Behaviour(70, grace=3), Behaviour(20), **RETIRES)
    match_slot(pool, "2.0")
    pool.advance(3)
    pool.act("hold", "2.0", user="bob")
    match_slot(pool, "2.1", reason="priority")
    pool.advance(60)
    return tuple(pool.events())


def change_manual_match(**values: Any) -> Edit:
    """Change the first cycle's match that was recorded by hand."""

    def edit(log: list[e.Event]) -> None:
        place, event = next(
            (index, event)
            for index, event in enumerate(log)
            if isinstance(event, e.CycleHeld) and any(match.reason for match in event.matches)
        )
        log[place] = replace(event, matches=(replace(event.matches[0], **values),))

    return edit


BY_RANK = e.Match("1.0", SLOT, 0.0, "rank")
FAULTS: list[tuple[str, Edit, str]] = [
    ("a claimed slot is matched without a reason", change_manual_match(reason=""), "match"),
    ("a slot is matched for an unknown reason", change_manual_match(reason="pity"), "value"),
    ("an unclaimed slot is matched with a preemption reason", change(e.CycleHeld, matches=(BY_RANK,)), "match"),
    ("another job is matched than the waiting one", change_manual_match(job="2.1"), "match"),
    ("an unmatched job waits", change_manual_match(slot="slot2@h"), "match"),
    ("a job waits for a slot that prefers its present job", change(e.ClaimQueued, rank=-1.0), "waiting"),
    ("a job waits for another job's match", change(e.ClaimQueued, job="1.0"), "match"),
    ("a waiting job is repeated", repeat(e.ClaimQueued), "waiting"),
    ("a held job's claim keeps waiting", drop(e.ClaimWithdrawn), "waiting"),
    ("the waiting claim is missing", drop(e.ClaimQueued, 1), "claim"),
    ("another job starts than the waiting one", change(e.JobActivated, 1, proc=0), "source"),
    ("another job's claim takes over", change(e.ClaimMade, 1, job="2.0"), "waiting"),
]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_unedited_history_is_sound(dialect: str) -> None:
    assert examine(enumerate(sound(dialect), 1)).violations == []
    assert {event.reason for cycle in sound(dialect) if isinstance(cycle, e.CycleHeld) for event in cycle.matches} == {
        "", "rank", "priority"
    }  # fmt: skip


@pytest.mark.parametrize(("fault", "edit", "rule"), FAULTS, ids=[fault[0] for fault in FAULTS])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_fault_breaks_its_rule(dialect: str, fault: str, edit: Edit, rule: str) -> None:
    violations = violations_after(sound(dialect), edit)
    assert violations and violations[0].rule == rule, violations[:3]


# Explanations


BEGINNINGS = {
    "1.0": [
        "alice submitted job 1.0.",
        "The negotiator matched job 1.0 with slot1@h, which was free.",
        "Job 1.0 started on slot1@h.",
        "bob@example.org, for job 2.0, is waiting for the slot of job 1.0: the slot's RANK prefers job 2.0 to its "
        "current job.",
        "The startd began to retire job 1.0: a preempting claim for the slot arrived.",
        "No job is waiting for the slot of job 1.0 any more",
        "bob@example.org, for job 2.1, is waiting for the slot of job 1.0: the submitter of job 2.1 has a better",
        "The processes of job 1.0 were asked to exit: the job's retirement time is over.",
        "Job 1.0 was evicted from slot1@h after 58 s, with signal 15; it is idle again.",
        "The negotiation cycle at 2027-01-15 08:",
    ],
    "2.0": [
        "bob submitted job 2.0, one of 2 jobs.",
        "The negotiator matched job 2.0 with slot1@h: the slot's RANK prefers this job to the job of alice@example.org",
        "Job 2.0 is waiting for the current job to leave slot1@h.",
        "bob put job 2.0 on hold (condor_hold).",
        "Job 2.0 is no longer waiting for slot1@h",
    ],
    "2.1": [
        "bob submitted job 2.1, one of 2 jobs.",
        "The negotiator matched job 2.1 with slot1@h: the submitter of this job has a better priority than alice@",
        "Job 2.1 is waiting for the current job to leave slot1@h.",
        "Job 2.1 started on slot1@h.",
    ],
    "slot1@h": [
        "The negotiator matched it with job 2.1: the submitter of it has a better priority than alice@example.org",
        "bob@example.org, for job 2.1, is waiting for it.",
    ],
}
"""The life of each job, and the beginning of a slot's: how the sentences begin."""


@pytest.mark.parametrize("thing", BEGINNINGS)
def test_why_names_the_user_and_the_reason_of_a_preemption(thing: str) -> None:
    log = open_log("memory:", create=True)
    log.append(list(sound("manual")[: _last_begin()]))
    texts, beginnings = [sentence.text for sentence in why(log, thing).life], BEGINNINGS[thing]
    first = next(index for index, text in enumerate(texts) if text.startswith(beginnings[0]))
    assert [text[: len(begin)] for text, begin in zip(texts[first:], beginnings, strict=thing != SLOT)] == beginnings


def _last_begin() -> int:
    """Return the length of the log up to the start of bob's job."""
    events = sound("manual")
    return max(index for index, event in enumerate(events) if isinstance(event, e.JobActivated)) + 1


def test_the_listing_shows_who_waits_and_what_kind_of_preemption_matched_the_slot() -> None:
    lines = [line(member) for position, event in enumerate(sound("manual"), 1) for member in members(position, event)]
    waits = [text for text in lines if "waited for" in text]
    assert [text.count("(by bob@example.org, for job 2.") for text in waits] == [1, 1]
    assert sum("with slot1@h, rank 0, by rank" in text for text in lines) == 1
    assert sum("with slot1@h, rank 0, by priority" in text for text in lines) == 1
