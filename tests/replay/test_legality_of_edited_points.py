"""Property: the validator detects every edit of a sound log of busy execution points. The edits that it cannot detect
are listed here, with the reason. (``test_legality_of_edited_logs`` covers the queue.)"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

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
from .virtual_point import PointPool

OF_POINTS: frozenset[type[e.Event]] = frozenset(
    {
        e.MachineConfigured, e.BenchmarksRan, e.CpuBusyChanged, e.DrainBegan, e.DrainTransitioned, e.DrainFinal,
        e.DrainBadputAdded, e.ShutdownBegan, e.ClaimQueued, e.ClaimWithdrawn,
        e.ClaimFlagged, e.ClaimActivated, e.ClaimDeactivated,
        e.StarterSignalled, e.RunReported, e.ClaimHolderSilent,
    }
)  # fmt: skip
"""The kinds of event that only execution points write."""

POLICY = (
    'WANT_SUSPEND=Activity=="Busy" SUSPEND=KeyboardIdle<15 CONTINUE=KeyboardIdle>30 '
    'PREEMPT=Activity=="Suspended"&&time()-EnteredCurrentActivity>40 KILL=time()-EnteredCurrentActivity>5 '
    "MaxJobRetirementTime=100 MachineMaxVacateTime=20 IS_OWNER=KeyboardIdle<20||CpuBusyTime>9999 "
    "RUNBENCHMARKS=time()-LastBenchmark>14400 CpuBusy=LoadAvg>0.5 Seen=1"
)
HISTORY = f"""
machine h Cpus=1 kind=static slots=2 {POLICY}
run 310 s
configure h POLLING_INTERVAL=10 slot1@h.Seen=2
claim slot1@h c1 lease=60
begin slot1@h
touch h
run 10 s
run 40 s
load h 0.9
silent slot1@h
heard slot1@h
claim slot1@h c2
withdraw slot1@h
run 10 s
load h 0
freeze slot1@h
run 10 s
thaw slot1@h
freeze slot1@h
run 60 s
claim slot1@h c3
run 30 s
gone slot1@h
claim slot2@h c4
begin slot2@h
drain h Graceful completion=resume start=true
run 100 s
gone slot2@h
run 700 s
claim slot2@h c5 lease=60
silent slot2@h
run 70 s
drain h Fast
undrain h
claim slot2@h c6
begin slot2@h 77.6 key=run-1
run 10 s
finish slot2@h
run 40 s
off h Graceful
"""


@cache
def sound(dialect: str) -> tuple[e.Event, ...]:
    pool = PointPool(dialect)
    for line in HISTORY.strip().splitlines():
        pool.say(line)
    return tuple(event for _, event in pool.events())


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_the_unedited_history_is_sound_and_has_every_kind_of_execution_point_event(dialect: str) -> None:
    log = sound(dialect)
    assert examine(enumerate(log, 1)).violations == []
    assert {type(event) for event in log} >= OF_POINTS


# Every event in turn: omitted, or repeated; every field: another value

NOT_REPEATED = "no event repeats it"
ANY_STIMULUS = "a stimulus may have any name; a rule compares the names of related events only if it needs them"
ANY_INSTANT = "any instant between its neighbours' is legal"

OF_A_CLAIM = ("ad", "holder", "job", "lease", "rank", "submitter")

UNDETECTED_OMISSIONS: dict[type[e.Event], str] = {
    e.CpuBusyChanged: "only a slot's last: it may stay busy forever",
    e.ClaimFlagged: "a flag's consequence may have another cause",
    e.ClaimHolderSilent: "only the last but one, that the holder reports again: a lease may end late",
    e.ClaimWithdrawn: "a waiting preempting claim may be replaced by an even better one",
    e.DrainFinal: "no event has to follow",
    e.MachineConfigured: NOT_REPEATED,
    e.MachineLeft: "a machine may be without slots",
    e.PrioritiesUpdated: "the next one includes it",
    e.RequestAnswered: "a job may continue without a request",
    e.RunReported: "only that the processes began: they may end before they report it",
    e.StarterSignalled: "only the access point's: the job may end by itself",
    e.SlotAdChanged: "a configuration may change any attribute",
    e.SlotTransitioned: "only transition 1, as the last before a slot's end: staying in Owner is also legal",
}
UNDETECTED_REPEATS: dict[type[e.Event], str] = {
    e.ClaimHolderSilent: "a holder may stay silent longer",
    e.EvaluationRecorded: "any number is legal",
    e.SlotAdChanged: "the values stay the same",
    e.StarterSignalled: "a job may be killed any number of times",
}
UNDETECTED_CHANGES: dict[tuple[type[e.Event], str], str] = {
    **{(kind, "at"): ANY_INSTANT for kind in (e.CpuBusyChanged, e.ClaimHolderSilent, e.ClaimQueued, e.ClaimWithdrawn)},
    **{(kind, name): ANY_INSTANT for kind in (e.RunReported, e.StarterSignalled) for name in ("at", "stimulus")},
    **{
        (kind, "stimulus"): ANY_STIMULUS
        for kind in (e.BenchmarksRan, e.CpuBusyChanged, e.ClaimFlagged, e.ClaimHolderSilent)
    },
    **{
        (kind, "stimulus"): ANY_STIMULUS for kind in (e.ClaimQueued, e.ClaimWithdrawn, e.DrainBadputAdded, e.DrainFinal)
    },
    **{(kind, "stimulus"): ANY_STIMULUS for kind in (e.DrainTransitioned, e.MachineConfigured, e.SlotTransitioned)},
    **{(e.BenchmarksRan, field): "any speed is legal" for field in ("mips", "kflops", "published")},
    **{(e.ClaimActivated, field): NOT_REPEATED for field in ("ad", "deferred", "files_first", "vacate")},
    **{(e.ClaimMade, field): NOT_REPEATED for field in ("ad", "holder", "job", "lease", "rank")},
    **{(e.ClaimQueued, field): "no event repeats it until the claim is made" for field in OF_A_CLAIM},
    **{(e.ClaimFlagged, field): NOT_REPEATED for field in ("code", "flags", "reason", "subcode")},
    (e.ClaimHolderSilent, "until"): "the holder reports again in time",
    **{(e.DrainBegan, field): NOT_REPEATED for field in ("reason", "start")},
    (e.EvaluationRecorded, "read"): "the value does not depend on it",
    (e.MachineConfigured, "settings"): NOT_REPEATED,
    (e.ShutdownBegan, "restart"): NOT_REPEATED,
    (e.StarterSignalled, "until"): "the job has ended by that time",
}


@pytest.mark.parametrize("dialect", [marked("manual"), "htcondor-25"])
def test_an_omitted_event_is_detected(dialect: str) -> None:
    assert undetected_omissions(sound(dialect)) == set(UNDETECTED_OMISSIONS)


@pytest.mark.parametrize("dialect", [marked("manual"), "htcondor-25"])
def test_a_repeated_event_is_detected(dialect: str) -> None:
    assert undetected_repeats(sound(dialect)) == set(UNDETECTED_REPEATS)


@pytest.mark.parametrize("dialect", [marked("manual"), "htcondor-25"])
def test_a_changed_field_is_detected(dialect: str) -> None:
    kinds: set[type[e.Event]] = {*OF_POINTS, e.SlotTransitioned, e.ClaimMade, e.EvaluationRecorded}
    assert undetected_changes(sound(dialect), kinds) == set(UNDETECTED_CHANGES)


# Faults that a forger might plant: the rule that each breaks first


def change_transition(nth: int, row: str, **values: Any) -> Edit:
    """Change the nth transition by a row."""

    def edit(log: list[e.Event]) -> None:
        place = [
            index for index, event in enumerate(log) if isinstance(event, e.SlotTransitioned) and event.row == row
        ][nth]
        log[place] = replace(log[place], **values)

    return edit


def change_evidence(expression_name: str, **values: Any) -> Edit:
    """Change the first evidence for an expression."""

    def edit(log: list[e.Event]) -> None:
        events = enumerate(log)
        place = next(
            index
            for index, event in events
            if isinstance(event, e.EvaluationRecorded) and event.name == expression_name
        )
        log[place] = replace(log[place], **values)

    return edit


FAULTS: list[tuple[str, Edit, str]] = [
    # machines
    ("an unknown setting of a machine changes", change(e.MachineConfigured, settings={"COLOUR": "1"}), "value"),
    ("a machine joins with an unknown setting", change(e.MachineJoined, settings={"COLOUR": "1"}), "value"),
    ("the configuration in force is read again", repeat(e.MachineConfigured), "value"),
    ("benchmarks end that were not started", repeat(e.BenchmarksRan), "source"),
    ("benchmarks ran on an unknown slot", change(e.BenchmarksRan, slot="slot9@h"), "reference"),
    ("benchmarks have a negative result", change(e.BenchmarksRan, mips=-1), "value"),
    ("a busy slot becomes busy again", repeat(e.CpuBusyChanged), "source"),
    # drains
    ("an active drain starts again", repeat(e.DrainBegan), "drain"),
    ("a drain's start is missing", drop(e.DrainBegan), "drain"),
    ("a drain has a wrong id", change(e.DrainBegan, drain=7), "drain"),
    ("a drain has an unknown schedule", change(e.DrainBegan, schedule="Slow"), "value"),
    ("a drain has an unknown completion action", change(e.DrainBegan, completion="holiday"), "value"),
    ("a drain completes without a completion action", change(e.DrainBegan, completion=""), "drain"),
    ("a drain is complete before its slots are drained", drop(e.SlotTransitioned, row="33"), "source"),
    ("a slot is drained before the others are", drop(e.SlotTransitioned, row="37"), "drain"),
    ("a drain uses a row with another target", change(e.DrainTransitioned, target="Stopped"), "row"),
    ("a drain's transition has the wrong source", change(e.DrainTransitioned, 1, source="Fast"), "source"),
    ("a drain ends without its slots' transitions", drop(e.SlotTransitioned, row="34"), "source"),
    ("a drain's transition has another id", change(e.DrainTransitioned, drain=2), "drain"),
    ("the first evictions of a drain are repeated", repeat(e.DrainFinal), "drain"),
    ("a drain is charged too much", change(e.DrainBadputAdded, badput=101), "drain"),
    ("a drain is charged for another slot's job", change(e.DrainBadputAdded, slot="slot1@h"), "drain"),
    # shutdown
    ("an execution point has an unknown kind of shutdown", change(e.ShutdownBegan, how="Sadly"), "value"),
    ("an execution point's shutdown is repeated", repeat(e.ShutdownBegan), "shutdown"),
    # claims
    ("a claim of the pool's own access point has no match", change(e.ClaimMade, holder=""), "match"),
    ("a waiting claim is repeated", repeat(e.ClaimQueued), "waiting"),
    ("a waiting claim is missing", drop(e.ClaimQueued), "waiting"),
    ("a claim is withdrawn that was not waiting", repeat(e.ClaimWithdrawn), "waiting"),
    ("another claim takes over than the waiting one", change(e.ClaimMade, 1, claim="c9"), "waiting"),
    ("a claim has an unknown flag", change(e.ClaimFlagged, flags=("holy",)), "value"),
    ("a claim gets the same flag again", repeat(e.ClaimFlagged), "claim"),
    ("another claim gets the flag", change(e.ClaimFlagged, claim="c9"), "claim"),
    ("a job continues by request although no request suspended it", drop(e.ClaimFlagged), "claim"),
    ("a claim has a negative lease", change(e.ClaimMade, lease=-1), "value"),
    ("a lease expires too early", change(e.ClaimHolderSilent, 2, until=10**18), "lease"),
    ("a lease expires although its holder reported", drop(e.ClaimHolderSilent, 2), "lease"),
    ("a holder reports again that was not silent", drop(e.ClaimHolderSilent), "lease"),
    # jobs of other claim holders
    ("a job begins twice", repeat(e.ClaimActivated), "activation"),
    ("a job's start is missing", drop(e.ClaimActivated), "activation"),
    ("another job ends than the running one", change(e.ClaimDeactivated, job="9.9"), "activation"),
    ("a job's end is missing", drop(e.ClaimDeactivated), "activation"),
    ("a job's signal is missing", drop(e.StarterSignalled), "end"),
    ("a job's signal is of an unknown kind", change(e.StarterSignalled, how="kindly"), "end"),
    ("a job's deadline precedes its signal", change(e.StarterSignalled, until=1), "end"),
    ("a job's retirement is too short", change(e.SlotCreated, 1, ad={"MaxJobRetirementTime": "999"}), "retirement"),
    # decisions by expressions
    ("a transition names no evidence", change_transition(0, "14", evidence=0), "evidence"),
    ("a transition names the evidence of another decision", change_transition(0, "14", evidence=5), "evidence"),
    ("a transition names an event that is not evidence", change_transition(0, "14", evidence=1), "evidence"),
    ("a transition has evidence for another expression", change_evidence("SUSPEND", name="CONTINUE"), "evidence"),
    ("a transition has evidence for a false expression", change_evidence("SUSPEND", value="false"), "decision"),
    ("an expression had another value", change_evidence("IS_OWNER", value="true"), "decision"),
    ("an expression read other values", change_evidence("SUSPEND", read={"MY.KeyboardIdle": "99"}), "decision"),
    ("an expression read no value", change_evidence("SUSPEND", read={}), "decision"),
    ("an expression is invalid", change_evidence("SUSPEND", expression="KeyboardIdle <"), "decision"),
    ("an expression differs from the slot's", change_evidence("SUSPEND", expression="KeyboardIdle < 16"), "evidence"),
    ("a transition has another cause than its expression", change_transition(0, "14", cause="kill"), "evidence"),
]  # fmt: skip


@together(("fault", "edit", "rule"), FAULTS)
def test_a_planted_fault_breaks_its_rule(fault: str, edit: Edit, rule: str) -> None:
    violations = violations_after(sound("manual"), edit)
    assert violations and violations[0].rule == rule, violations[:3]
    assert {violation.rule for violation in violations} <= set(RULES)
