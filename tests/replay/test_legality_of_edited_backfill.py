"""Property: the validator detects every edit of a sound log of machines with backfill. The edits that it cannot detect
are listed here, with the reason. (``test_legality_of_edited_points`` covers the rest of an execution point.)"""

from __future__ import annotations

from functools import cache

import pytest

from poolbook.domain import events as e
from poolbook.replay.validation import RULES, examine

from ..sampling import marked
from ..together import together
from .edits import (
    Edit,
    change,
    drop,
    repeat,
    undetected_changes,
    undetected_omissions,
    undetected_repeats,
    violations_after,
)
from .test_legality_of_edited_points import change_evidence
from .virtual_point import BACKFILL, PointPool

OF_BACKFILL: frozenset[type[e.Event]] = frozenset(
    {e.BackfillStarted, e.BackfillExecuting, e.BackfillSignalled, e.BackfillExited, e.BackfillLeaving}
)
"""The kinds of event that only machines with backfill write."""

HISTORY = f"""
machine h Cpus=2 kind=static slots=2 START_BACKFILL=MyCurrentTime>1800000300 EVICT_BACKFILL=KeyboardIdle<20
configure h {BACKFILL}
run 400 s
exit h 1
run 60 s
claim slot1@h c1
touch h
run 10 s
give slot1@h
run 100 s
client h immortal
exit h
run 60 s
notify slot1@h
notify slot2@h
run 20 s
vacate root slot2@h
exit h
run 60 s
claim slot1@h c2
claim slot2@h c3
run 5 s
withdraw slot2@h
exit h
run 100 s
"""


@cache
def sound(dialect: str) -> tuple[e.Event, ...]:
    pool = PointPool(dialect)
    for line in HISTORY.strip().splitlines():
        pool.say(line)
    return tuple(event for _, event in pool.events())


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_the_unedited_history_is_sound_and_has_every_kind_of_backfill_event(dialect: str) -> None:
    log = sound(dialect)
    assert examine(enumerate(log, 1)).violations == []
    assert {type(event) for event in log} >= OF_BACKFILL


# Every event in turn: omitted, or repeated; every field: another value

NOT_REPEATED = "no event repeats it"
ANY_STIMULUS = "a stimulus may have any name; a rule compares the names of related events only if it needs them"

UNDETECTED_OMISSIONS: dict[type[e.Event], str] = {
    e.BackfillExecuting: "a client may end before the supervisor reports that it runs",
    e.BackfillLeaving: "without a waiting claim a slot goes to Owner; a slot in Backfill/Idle may be matched",
    e.PrioritiesUpdated: "the next one includes it",
    e.SlotAdChanged: "a configuration may change any attribute",
}
UNDETECTED_REPEATS: dict[type[e.Event], str] = {
    e.EvaluationRecorded: "any number is legal",
    e.SlotAdChanged: "the values stay the same",
}
UNDETECTED_CHANGES: dict[tuple[type[e.Event], str], str] = {
    **{(e.BackfillExecuting, field): NOT_REPEATED for field in ("began", "pid")},
    (e.BackfillExecuting, "at"): "any instant between its neighbours' is legal",
    **{
        (e.BackfillExited, field): NOT_REPEATED
        for field in ("code", "signal", "reason", "ended", "user_cpu", "system_cpu")
    },
    **{(kind, "stimulus"): ANY_STIMULUS for kind in (e.BackfillExecuting, e.BackfillLeaving, e.SlotTransitioned)},
    (e.BackfillSignalled, "until"): "the client has ended by that time",
}


@pytest.mark.parametrize("dialect", [marked("manual"), "htcondor-25"])
def test_an_omitted_event_is_detected(dialect: str) -> None:
    assert undetected_omissions(sound(dialect)) == set(UNDETECTED_OMISSIONS)


@pytest.mark.parametrize("dialect", [marked("manual"), "htcondor-25"])
def test_a_repeated_event_is_detected(dialect: str) -> None:
    assert undetected_repeats(sound(dialect)) == set(UNDETECTED_REPEATS)


@pytest.mark.parametrize("dialect", [marked("manual"), "htcondor-25"])
def test_a_changed_field_is_detected(dialect: str) -> None:
    assert undetected_changes(sound(dialect), {*OF_BACKFILL, e.SlotTransitioned}) == set(UNDETECTED_CHANGES)


# Faults that a forger might plant: the rule that each breaks first

FAULTS: list[tuple[str, Edit, str]] = [
    ("a client starts while another runs", repeat(e.BackfillStarted), "backfill"),
    ("an unconfigured client starts", change(e.BackfillStarted, system="BOINC"), "backfill"),
    ("a client runs another program", change(e.BackfillStarted, client={"Executable": "/bin/mine"}), "backfill"),
    ("a client starts for an unknown slot", change(e.BackfillStarted, slot="slot9@h"), "reference"),
    ("a client starts for a slot that needs none", change(e.BackfillStarted, slot="slot1@h"), "backfill"),
    ("a client's start is missing", drop(e.BackfillStarted), "backfill"),
    ("a client runs on an unknown machine", change(e.BackfillExecuting, machine="k"), "reference"),
    ("a client's execution is repeated", repeat(e.BackfillExecuting), "backfill"),
    ("a client has no process id", change(e.BackfillExecuting, pid=0), "value"),
    ("another client exits", change(e.BackfillExited, key="1"), "backfill"),
    ("a client's exit is missing", drop(e.BackfillExited), "backfill"),
    ("a client's exit is repeated", repeat(e.BackfillExited), "backfill"),
    ("a client was killed without a signal", change(e.BackfillExited, 1, outcome="killed"), "backfill"),
    ("a client restarts too soon", change(e.BackfillExited, 1, retry=0), "backfill"),
    ("a client's end has an impossible time", change(e.BackfillExited, ended=-1), "value"),
    ("a client's signal is missing", drop(e.BackfillSignalled), "backfill"),
    ("a client's deadline precedes its signal", change(e.BackfillSignalled, until=1), "backfill"),
    ("a slot leaves Backfill for an unknown state", change(e.BackfillLeaving, destination="Heaven"), "value"),
    ("a slot leaves Backfill for Owner instead", change(e.BackfillLeaving, destination="Owner"), "backfill"),
    ("a slot leaves Backfill for Claimed instead", change(e.BackfillLeaving, destination="Claimed"), "backfill"),
    ("a slot without a client leaves Backfill", repeat(e.BackfillLeaving), "backfill"),
    ("START_BACKFILL was not evaluated", change_evidence("START_BACKFILL", name="EVICT_BACKFILL"), "evidence"),
    ("START_BACKFILL was false", change_evidence("START_BACKFILL", value="false"), "decision"),
]


@together(("fault", "edit", "rule"), FAULTS)
def test_a_planted_fault_breaks_its_rule(fault: str, edit: Edit, rule: str) -> None:
    violations = violations_after(sound("manual"), edit)
    assert violations and violations[0].rule == rule, violations[:3]
    assert {violation.rule for violation in violations} <= set(RULES)
