"""Property: whatever else happens during a story, its log is legal, and the live state equals the folded log. The test
takes as few stories of ``cases`` as together reach every row of both dialects."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from poolbook.adapters.testing.invariants import plain_state
from poolbook.domain.fold.evolve import fold
from poolbook.domain.state_machines import DIALECTS
from poolbook.domain.units import SECOND
from poolbook.replay.validation import examine

from ..sampling import soak_examples
from .cases import STORIES
from .points import BEGIN, Point, at
from .reach import NOT_REACHED, reached
from .remote_holder import RunningPoint
from .stories import Story, begin, row_of, run_act

SLOTS = st.sampled_from(["slot1@h", "slot2@h", "slot1_1@h", "slot1_2@h"])
ALL_ROWS = {
    name: {row.number for row in dialect.slot_rows} - {row for number, row in NOT_REACHED if number == name}
    for name, dialect in DIALECTS.items()
}


def fewest(dialect: str) -> list[Story]:
    """Return stories that together reach every row of a dialect, those first that reach most of the remaining rows."""
    rows_of = {story.of: set[str]() for story in STORIES}
    for row, stories in reached(dialect).items():
        for name in stories:
            rows_of[name].add(row)
    chosen_stories, rows_left = [], set(ALL_ROWS[dialect])
    while rows_left:
        best = max(STORIES, key=lambda story: len(rows_of[story.of] & rows_left))
        assert rows_of[best.of] & rows_left, f"no story reaches {rows_left}"
        rows_left -= rows_of[best.of]
        chosen_stories.append(best)
    return chosen_stories


class DisturbedStory(RuleBasedStateMachine):
    """A story up to any of its lines, and then random events while it continues."""

    story: Story
    dialect: str
    kind: type[Point]
    rows: Counter[str]  #: how often the examples took each row

    @initialize(undisturbed=st.integers(0, 6))
    def begins(self, undisturbed: int) -> None:
        """0: the whole story happens first; otherwise this many of its lines minus one."""
        self.point = self.kind(self.dialect)
        begin(self.story, self.point)
        self.lines = list(self.story.lines)
        for _ in range(len(self.lines) if not undisturbed else min(undisturbed - 1, len(self.lines))):
            self.the_story_continues()
        if not undisturbed:
            at(self.point, self.story.until)

    @property
    def second(self) -> float:
        return (self.point.world.clock - BEGIN) / SECOND

    def has_machine(self) -> bool:
        return "h" in self.point.state.machines

    @precondition(lambda self: self.lines and self.has_machine())
    @rule()
    def the_story_continues(self) -> None:
        instant, _, act = self.lines.pop(0).partition(" ")
        at(self.point, max(float(instant), self.second))
        run_act(self.point, self.story.slot, act)

    @rule(seconds=st.sampled_from([0.5, 5, 25, 70, 400]))
    def time_passes(self, seconds: float) -> None:
        self.point.advance(seconds)

    @precondition(has_machine)
    @rule(
        line=st.sampled_from([
            "touch", "load 0.9", "load 0", "say Wanted=true", "say Wanted=false", "say Pause=true", "say Pause=false",
            "exit", "exit 1", "client immortal=yes", "client seconds=20", "configure ENABLE_BACKFILL=false",
            "configure ENABLE_BACKFILL=true", "set Start=false", "set Start=true", "set KILL=true",
        ])
    )  # fmt: skip
    def the_owner(self, line: str) -> None:
        run_act(self.point, "slot1@h", line)

    @precondition(has_machine)
    @rule(
        slot=SLOTS,
        line=st.sampled_from([
            "vacate", "vacate fast", "drain Graceful", "drain Quick", "drain Fast", "drain Graceful completion=resume",
            "drain Graceful start=true", "undrain", "off Graceful", "off Fast", "off Peaceful", "pause", "unpause",
        ])
    )  # fmt: skip
    def the_administrator(self, slot: str, line: str) -> None:
        run_act(self.point, slot, line)

    @rule(line=st.sampled_from(["job seconds=50", "job grace=20", "hold 1", "remove 1"]))
    def a_user(self, line: str) -> None:
        run_act(self.point, "slot1@h", line)

    @precondition(has_machine)
    @rule(
        slot=SLOTS,
        line=st.sampled_from([
            "notify", "claim idle", "claim idle lease=30", "claim seconds=1000", "claim seconds=40 grace=10",
            "withdraw", "fail",
        ])
    )  # fmt: skip
    def an_outside_holder(self, slot: str, line: str) -> None:
        run_act(self.point, slot, line)

    @rule(slot=SLOTS, line=st.sampled_from(["activate", "release", "deactivate", "close", "silence", "heard"]))
    def the_holder(self, slot: str, line: str) -> None:
        slot_record = self.point.state.slots.get(slot)
        if slot_record is not None and slot_record.claim is not None and slot_record.claim.holder:
            run_act(self.point, slot, line)

    @invariant()
    def a_slot_has_a_claim_exactly_in_claimed_and_preempting(self) -> None:
        for slot in self.point.state.slots.values() if hasattr(self, "point") else ():
            assert (slot.claim is not None) == (slot.state in ("Claimed", "Preempting")), slot.name

    def teardown(self) -> None:
        if not hasattr(self, "point"):
            return
        violations = examine(self.point.log.read()).violations
        assert not violations, "\n".join([f"{violations[0].thing}: {violations[0].words}", *violations[0].story])
        assert plain_state(self.point.state) == plain_state(fold(self.point.log.read()))
        self.point.advance(0.001)  # the world reports what it was just asked to start
        keys = {key for key, run in self.point.world._runs.items() if not run.client and not run.ends}
        assert keys == set(self.point.state.running_keys)
        self.rows.update(filter(None, (row_of(event, self.dialect) for event in self.point.events())))


def disturbed(stories: list[Story], dialect: str, examples: int, steps: int, kind: type[Point] = Point) -> Counter[str]:
    """Disturb each of these stories this many times, and return how often each row was taken."""
    rows = Counter[str]()
    for story in stories:
        machine = type("Disturbed", (DisturbedStory,), {"story": story, "dialect": dialect, "kind": kind, "rows": rows})
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples, stateful_step_count=steps, deadline=None, database=None, derandomize=True,
                phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
            ),
        )  # fmt: skip
    return rows


@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_disturbed_story_is_legal_and_every_row_is_reached(dialect: str) -> None:
    rows = disturbed(fewest(dialect), dialect, examples=2, steps=12)
    assert set(rows) == ALL_ROWS[dialect]


def external_stories() -> list[Story]:
    """Return the stories in which an external holder's job runs."""
    return [story for story in STORIES if not {"claim", "activate"}.isdisjoint(" ".join(story.lines).split())]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_disturbed_story_is_legal_if_the_processes_of_external_jobs_run_at_the_execution_point(
    dialect: str,
) -> None:
    disturbed(external_stories()[::8], dialect, examples=1, steps=12, kind=RunningPoint)


@pytest.mark.soak
@pytest.mark.parametrize("kind", [Point, RunningPoint])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_disturbed_story_is_legal(dialect: str, kind: type[Point]) -> None:
    disturbed(list(STORIES) if kind is Point else external_stories(), dialect, soak_examples(200), steps=30, kind=kind)
