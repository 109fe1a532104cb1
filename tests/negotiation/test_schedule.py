"""Table: when the next cycle is held. It uses no engine and no world: only events and results of cycles."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from poolbook.domain import events as e
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.fold.run_fold import record_run_end
from poolbook.domain.negotiator.schedule import CycleSchedules
from poolbook.domain.state.pool_settings import complete_settings
from poolbook.domain.state.slot_fold import PUBLISHED
from poolbook.domain.state.state import State

SECOND = 1_000_000
BEGAN = 1_700_000_000
NOT_PACED: Mapping[str, str] = {}
PACED = {"NEGOTIATOR_CYCLE_DELAY": "20", "NEGOTIATOR_MIN_INTERVAL": "5"}
MATCH = e.Match("1.0", "slot1@h", 0.0, "priority")
WHY = ("submitted", "x")
MOVES = {
    "held": ("hold", "Idle", "Held"),
    "released": ("release", "Held", "Idle"),
    "removed": ("leave", "Held", "Left"),
}


class ScheduleStory:
    """A schedule with the state of a story's events; times are in seconds of the story."""

    def __init__(self, configured: Mapping[str, str]) -> None:
        self.state, self.schedule = State(), CycleSchedules()
        pool_settings = complete_settings(dict(configured))
        self.event(e.PoolFounded(self.at(0), "founded", "x", "pool", "htcondor-25", "here", "1", pool_settings))
        self.event(e.SlotCreated(self.at(0), *WHY, "slot1@h", "h", "static", "", {}))
        self.event(e.SlotTransitioned(self.at(0), *WHY, "slot1@h", "1", "Owner/Idle", "Unclaimed/Idle"))
        self.clusters = 0

    def at(self, second: float) -> int:
        return BEGAN * SECOND + round(second * SECOND)

    def event(self, event: e.Event) -> None:
        evolve(self.state, event)

    def happens(self, second: float, occurrence: str) -> None:
        at = self.at(second)
        match occurrence:
            case "submitted" | "submitted on hold":
                self.clusters += 1
                status = "Idle" if occurrence == "submitted" else "Held"
                self.event(e.ClusterSubmitted(at, *WHY, self.clusters, "alice@here", {}, 1, (), status))
            case "held" | "released" | "removed":
                row, target = {"held": ("hold", "Held"), "released": ("release", "Idle"), "removed": ("leave", "Left")}[
                    occurrence
                ]
                source = "Idle" if occurrence == "held" else "Held"
                self.event(e.JobsTransitioned(at, *WHY, self.clusters, ((0, 0),), row, source, target, {}))
            case "edited":
                self.event(e.JobsEdited(at, *WHY, self.clusters, ((0, 0),), {"JobPrio": "1"}))
            case "the slot is free":
                self.event(e.SlotTransitioned(at, *WHY, "slot1@h", "1", "Owner/Idle", "Unclaimed/Idle"))
            case "the slot changed":
                self.event(e.SlotAdChanged(at, *WHY, "slot1@h", {"Memory": "7"}))
            case "the sensors changed":
                self.event(e.SlotAdChanged(at, PUBLISHED, "x", "slot1@h", {"LoadAvg": "0.5"}))
            case "claimed":
                self.event(e.ClaimMade(at, *WHY, "slot1@h", "c", "bob@here", 1000))
            case "accounted":
                self.event(e.PrioritiesUpdated(at, "accounted", "x", {"bob@here": 0.5}))
            case "could not start" | "held at its start":
                row, target = ("evict", "Idle") if occurrence == "could not start" else ("hold", "Held")
                end = e.JobExited(
                    at, "execution_failed", "x", self.clusters, 0, "slot1@h", "1", "failed", row, target, {}
                )
                self.state.position += 1
                record_run_end(self.state, end)
            case "started":
                self.state.pause = 0
            case "reschedule":
                self.schedule.reschedule(self.state)
            case _:
                self.cycle(at, occurrence)

    def cycle(self, at: int, occurrence: str) -> None:
        took = int(occurrence.split()[2]) if occurrence.startswith("cycle of") else 0
        statistics: dict[str, float] = {"SubmittersMatchLimit": 1} if "cut short" in occurrence else {}
        matches = (MATCH,) if "preempted" in occurrence else ()
        cycle = None if "without news" in occurrence else e.CycleHeld(at, *WHY, matches, (), statistics)
        if cycle is not None:
            self.state.position += 1
            self.state.cycles.record_cycle(cycle, self.state.position)
        self.schedule.record_cycle(self.state, "", at, cycle)
        self.schedule.record_duration(self.state, at, at + took * SECOND)


Story = list[tuple[float, str]]

CASES: list[tuple[str, Mapping[str, str], Story, float | None]] = [
    # what it shows, the pace, the story, when the next cycle is held from second 30 on (None: only on request)
    ("no one waits or uses slots", NOT_PACED, [(0, "cycle")], None),
    ("new jobs are considered immediately", NOT_PACED, [(0, "cycle"), (10, "submitted")], 30),
    ("held jobs need no cycle", NOT_PACED, [(0, "cycle"), (10, "submitted on hold")], None),
    ("unmatched jobs wait for the interval", NOT_PACED, [(0, "submitted"), (1, "cycle")], 61),
    ("also after a cycle without news", NOT_PACED, [(0, "submitted"), (1, "cycle without news")], 61),
    ("unless something helps: a free slot", NOT_PACED, [(0, "submitted"), (1, "cycle"), (9, "the slot is free")], 30),
    ("a slot's ad", NOT_PACED, [(0, "submitted"), (1, "cycle"), (9, "the slot changed")], 30),
    ("but not a sensor reading", NOT_PACED, [(0, "submitted"), (1, "cycle"), (9, "the sensors changed")], 61),
    ("an edited job", NOT_PACED, [(0, "submitted"), (1, "cycle"), (9, "edited")], 30),
    ("a released job", NOT_PACED, [(0, "submitted on hold"), (1, "cycle"), (9, "released")], 30),
    ("a held job does not", NOT_PACED, [(0, "submitted"), (1, "cycle"), (9, "held")], None),
    ("nor one that left", NOT_PACED, [(0, "submitted on hold"), (1, "cycle"), (9, "removed")], None),
    ("a cycle that was cut short continues", NOT_PACED, [(0, "submitted"), (29, "cycle, cut short")], 30),
    ("who uses something ages", NOT_PACED, [(0, "cycle"), (2, "claimed")], 60),
    ("from the last update on", NOT_PACED, [(0, "cycle"), (2, "claimed"), (20, "accounted")], 80),
    ("a job was preempted", NOT_PACED, [(0, "submitted"), (28, "cycle, preempted"), (29, "submitted")], 33),
    ("but a cycle is requested", NOT_PACED, [(28, "cycle, preempted"), (29, "reschedule")], 30),
    ("a long cycle rests", NOT_PACED, [(0, "submitted"), (20, "cycle of 10 s"), (29, "submitted")], 40),
    ("but not long", NOT_PACED, [(0, "submitted"), (-170, "cycle of 190 s"), (29, "submitted")], 80),
    ("it rests from requests, too", NOT_PACED, [(20, "cycle of 10 s"), (29, "reschedule")], 40),
    ("asked for without a job", NOT_PACED, [(0, "cycle"), (9, "reschedule")], 30),
    ("a start that failed pauses", NOT_PACED, [(0, "submitted"), (29.5, "could not start")], 30.5),
    ("the pause doubles", NOT_PACED, [(0, "submitted"), *((at, "could not start") for at in (20, 22, 25, 30))], 38),
    ("to a minute", NOT_PACED, [(0, "submitted"), *((at * 90, "could not start") for at in range(-8, 1))], 60),
    ("one pause for jobs that started together", NOT_PACED, [(0, "submitted"), *[(29.5, "could not start")] * 9], 30.5),
    ("until one starts", NOT_PACED, [(0, "submitted"), (9, "could not start"), (20, "could not start"), (25, "started"),
     (29.5, "could not start")], 30.5),
    ("unless a cycle is requested", NOT_PACED, [(0, "submitted"), (29.5, "could not start"), (29.6, "reschedule")], 30),
    ("a job that is held pauses nothing", NOT_PACED, [(0, "submitted"), (29.5, "held at its start")], 30),
    ("the clock was set back an hour", NOT_PACED, [(0, "submitted"), (3600, "cycle of 10 s without news"),
     (29, "submitted")], 30),
    ("and nothing may help", NOT_PACED, [(0, "submitted"), (3600, "cycle without news")], 90),
    ("asked for once", NOT_PACED, [(0, "reschedule"), (9, "cycle")], None),
    ("the delay lies between cycles", PACED, [(0, "submitted"), (25, "cycle"), (26, "submitted")], 45),
    ("behind their ends", PACED, [(0, "submitted"), (20, "cycle of 9 s"), (26, "submitted")], 49),
    ("also where it is asked for", PACED, [(0, "submitted"), (25, "cycle"), (26, "reschedule")], 45),
    ("a free slot is not a request", PACED, [(0, "submitted"), (9, "cycle"), (10, "the slot is free")], 69),
    ("a released job is one", PACED, [(0, "submitted on hold"), (9, "cycle"), (10, "released")], 30),
    ("an edited one is none", PACED, [(0, "submitted"), (9, "cycle"), (10, "edited")], 69),
]  # fmt: skip


@pytest.mark.parametrize(("shows", "pace", "story", "expected"), CASES, ids=[case[0] for case in CASES])
def test_the_next_cycle_is_held_when_due(
    shows: str, pace: Mapping[str, str], story: Story, expected: float | None
) -> None:
    tested = ScheduleStory(pace)
    for second, occurrence in story:
        tested.happens(second, occurrence)
    state, schedule = tested.state, tested.schedule
    due = [second / 2 for second in range(60, 400) if schedule.due_negotiators(state, tested.at(second / 2))]
    assert (due[0] if due else None) == expected
    # Sleeping until each time that the schedule names leads to the same due time.
    now = tested.at(30)
    for _ in range(5):
        if schedule.due_negotiators(state, now):
            break
        next_time = schedule.next_due(state, now)
        if next_time is None:
            break
        assert next_time > now
        now = next_time
    assert bool(schedule.due_negotiators(state, now)) == (expected is not None)
    if expected is not None:
        assert now == tested.at(expected)


def test_a_process_holds_its_first_cycle_as_soon_as_jobs_wait() -> None:
    tested = ScheduleStory(PACED)
    assert not tested.schedule.due_negotiators(tested.state, tested.at(0))
    tested.happens(0, "submitted")
    assert tested.schedule.due_negotiators(tested.state, tested.at(0))


def test_a_process_that_folds_the_log_waits_for_no_cycle_that_cannot_help() -> None:
    tested = ScheduleStory(NOT_PACED)
    tested.happens(0, "submitted")
    tested.happens(1, "cycle")
    tested.schedule = CycleSchedules()
    assert not tested.schedule.wait_for_cycle(tested.state)
    tested.schedule.record_matchable_jobs(tested.state)
    assert tested.schedule.wait_for_cycle(tested.state)
    tested.happens(2, "cycle")
    assert not tested.schedule.wait_for_cycle(tested.state)


@pytest.mark.parametrize(
    ("pace", "story", "expected"),
    [
        (NOT_PACED, [(0, "submitted"), (29.5, "could not start")], 30.5),
        (NOT_PACED, [(0, "submitted"), *((at, "could not start") for at in (20, 22, 25, 30))], 38),
        (NOT_PACED, [(0, "submitted"), (28, "cycle, preempted"), (29, "submitted")], 33),
        (NOT_PACED, [(0, "cycle"), (2, "claimed")], 60),
        (NOT_PACED, [(0, "submitted"), (29, "cycle")], 89),
        (NOT_PACED, [(0, "submitted"), (29, "cycle"), (29.5, "edited")], 30),
        (NOT_PACED, [(0, "submitted"), (29, "cycle, cut short")], 30),
        (PACED, [(0, "submitted"), (25, "cycle"), (26, "submitted")], 45),
        (PACED, [(0, "submitted"), (9, "cycle"), (10, "the slot is free")], 69),
        (PACED, [(0, "submitted on hold"), (9, "cycle"), (10, "released")], 30),
    ],
)
def test_a_process_that_folds_the_log_holds_the_next_cycle_when_it_is_due(
    pace: Mapping[str, str], story: Story, expected: float
) -> None:
    tested = ScheduleStory(pace)
    for second, occurrence in story:
        tested.happens(second, occurrence)
    schedule = CycleSchedules()
    due = (second / 2 for second in range(60, 400) if schedule.due_negotiators(tested.state, tested.at(second / 2)))
    assert next(due) == expected
