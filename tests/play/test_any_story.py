"""Properties: for any scenario, all resulting events are legal; jumping through time changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.adapters.simulation import PlayEvent, ScenarioMachines, Simulation, play
from poolbook.adapters.simulation.runner import lines
from poolbook.adapters.stores.opening import open_log
from poolbook.replay.scenario import PlayError, parse_scenario
from poolbook.replay.validation import examine

from ..sampling import soak_examples

POLICY = """\
dialect {dialect}
machine h cores=2 memory=2048
config
    use FEATURE : {slots}
    RUNBENCHMARKS = OwnerWantsToKnow =?= True
    START = OwnerIsHere =!= True && (KeyboardIdle > 30 || Owner == "coltrane")
    IS_OWNER = OwnerIsHere =?= True
    WANT_SUSPEND = OwnerIsPatient =!= False
    SUSPEND = KeyboardIdle < 60 || CpuBusyTime > 90
    CONTINUE = KeyboardIdle > 120 && LoadAvg < 0.5
    PREEMPT = (Activity == "Suspended" && time() - EnteredCurrentActivity > 150) || OwnerMustHaveIt =?= True
    WANT_VACATE = OwnerIsPatient =!= False
    KILL = OwnerMustHaveItNow =?= True
    RANK = (Owner == "garrison") * 10
    CpuBusy = LoadAvg > 0.5
    MaxJobRetirementTime = 200
    MachineMaxVacateTime = 40
    CLAIM_WORKLIFE = 400
    SLOTS_CONNECTED_TO_KEYBOARD = 2
    UPDATE_INTERVAL = 60
end
"""
LINES = [
    "KeyboardIdle=0", "KeyboardIdle=10min", "slot1 KeyboardIdle=0", "slot2 KeyboardIdle=5min", "ConsoleIdle=1min",
    "to 25:30 KeyboardIdle=0", "to 26:00 slot1 LoadAvg=0.8", "LoadAvg=1.5", "LoadAvg=0", "slot1 LoadAvg=2.0",
    "OwnerIsHere=True",
    "OwnerIsHere=False", "slot2 OwnerIsHere=True", "OwnerMustHaveIt=True", "OwnerMustHaveIt=False",
    "OwnerMustHaveItNow=True", "OwnerMustHaveItNow=False", "OwnerIsPatient=False", "OwnerIsPatient=True",
    "OwnerWantsToKnow=True", "OwnerWantsToKnow=False", "submit alice run=3:00 on-soft=ignores",
    "submit coltrane run=8:00 count=2 on-soft=ends-after 20", "submit dave run=1:00 MaxJobRetirementTime=0 load=0.7",
    "vacate slot*", "vacate slot* fast", "suspend slot*", "continue slot*", "suspend 1", "continue 1", "hold 1",
    "release 1", "remove 1", "vacate 2 fast", "drain", "drain quick resume", "drain fast", "cancel-drain",
    'drain resume start=(Owner == "coltrane")', "match slot1", "fail slot1",
    "claim slot1 by garrison run=4:00 on-soft=ends-after 15", "claim slot1 by bob", "withdraw slot1", "release slot1",
    "claim slot1_1 by bob run=2:00", "activate slot1 run=2:00 on-soft=ignores", "deactivate slot1", "match slot2",
    "deactivate slot1 closing", "access-point silent", "access-point heard", "set PREEMPT = False", "set START = True",
    "set CLAIM_WORKLIFE = -1", "off", "off peaceful", "off fast", "on",
]  # fmt: skip
STORIES = st.lists(st.tuples(st.integers(1, 1500), st.sampled_from(LINES)), min_size=1, max_size=25).map(sorted)


def play_scenario(text: str, steady: bool) -> tuple[Simulation, list[str]]:
    """Play a scenario; an impossible line (for a slot or machine that does not exist) ends it."""
    scenario, play_events = parse_scenario(text), list[PlayEvent]()
    stage = Simulation(
        scenario, ScenarioMachines(scenario), open_log("memory:", create=True), play_events.append, steady=steady
    )
    try:
        play(stage)
        end = ""
    except PlayError as error:
        end = str(error)
    return stage, [*(line for play_event in play_events for line in lines(stage.transcript, play_event)), end]


def check(dialect: str, slots: str, story: list[tuple[int, str]]) -> None:
    at = "".join(f"at {seconds}s {line}\n" for seconds, line in story if is_possible(line, slots))
    text = f"{POLICY.format(dialect=dialect, slots=slots)}{at}until 45:00\n"
    stage, reported = play_scenario(text, steady=True)
    assert examine(stage.log.read()).violations == []
    assert play_scenario(text, steady=False)[1] == reported


def is_possible(line: str, slots: str) -> bool:
    """Return True if such a slot always exists."""
    return slots == "StaticSlots" or ("slot1" not in line and "slot2" not in line)


DIALECTS = st.sampled_from(["manual", "htcondor-25"])
SLOTS = st.sampled_from(["StaticSlots", "PartitionableSlot"])


@settings(max_examples=4, deadline=None)
@given(DIALECTS, SLOTS, STORIES)
def test_all_resulting_events_are_legal_and_jumps_change_nothing(
    dialect: str, slots: str, story: list[tuple[int, str]]
) -> None:
    check(dialect, slots, story)


@pytest.mark.soak
@settings(max_examples=soak_examples(), deadline=None)
@given(DIALECTS, SLOTS, STORIES)
def test_the_same_holds_for_many_stories(dialect: str, slots: str, story: list[tuple[int, str]]) -> None:
    check(dialect, slots, story)
