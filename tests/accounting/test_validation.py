"""Table: validation detects each edited field of the accounting events."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.negotiator.accounting import accountant_settings, priority_at
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.state import State
from poolbook.domain.units import SECOND

from ..domain.pools import TestPool
from ..replay.edits import violations_of
from ..together import together

ALICE, BOB, CAROL = "alice@example.org", "bob@example.org", "carol@x"
UPDATES = (600, 1800, 2400)


class ExternallyClaimedPool(TestPool):
    """A pool whose slots are claimed by another access point, so only the test changes the accounts."""

    __test__ = False

    def set(self, submitter: str, name: str, value: float = 0.0, duration: int = 0, cancel: bool = False) -> None:
        assert not self.handle(s.SetSubmitter(self.id(), "root", submitter, name, value, duration, cancel)).refusal

    def claims(self, slot: str, submitter: str) -> None:
        self.handle(s.RequestClaim(self.id(), slot, f"claim-{slot}", "elsewhere", submitter, "7.0", {}))


@cache
def log() -> tuple[e.Event, ...]:
    """Return an hour in which alice and then bob have a slot, with an administrator's commands and three updates of the
    priorities."""
    pool = ExternallyClaimedPool(settings={"PRIORITY_HALFLIFE": "7200"})
    pool.engine.matching = False  # its cycles would update the priorities
    pool.machine(static=2)
    pool.claims("slot1@h", ALICE)
    pool.set(BOB, "priority", 20)
    pool.advance(1200)
    pool.claims("slot2@h", BOB)
    pool.set(BOB, "factor", 5, duration=3600)
    pool.advance(60)
    pool.set(BOB, "factor", 6)
    pool.advance(840)
    pool.set(BOB, "factor", cancel=True)
    pool.handle(s.ReleaseClaim(pool.id(), "slot1@h"))
    pool.advance(600)
    pool.handle(s.ResetUsage("reset", "root", (ALICE,)))
    pool.set(CAROL, "ceiling", 3)
    pool.handle(s.DeleteSubmitter("delete", "root", CAROL))
    return tuple(_with_updates(pool.events()))


def _with_updates(events: list[e.Event]) -> Iterator[e.Event]:
    """Yield the events and, between them, updates of the priorities."""
    state, start, due = State(), events[0].at, list(UPDATES)
    for event in events:
        while due and event.at > start + due[0] * SECOND:
            at = start + due.pop(0) * SECOND
            halflife = accountant_settings(state.settings).halflife
            priorities = {
                name: priority_at(submitter, state.priorities_updated_at, at, halflife)
                for name, submitter in state.submitters.items()
            }
            update = e.PrioritiesUpdated(at, "accounted", f"cycle-{at}", priorities)
            evolve(state, update)
            yield update
        evolve(state, event)
        yield event


def _nth(kind: type[e.Event], number: int) -> int:
    return [index for index, event in enumerate(log()) if isinstance(event, kind)][number]


def _violations(*edits: tuple[type[e.Event], int, dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the violations after edits, each of which has an event type, a number and the changed fields."""
    events = list(log())
    for kind, number, changes in edits:
        index = _nth(kind, number)
        events[index] = replace(events[index], **changes)
    return [(violation.thing, violation.rule) for violation in violations_of(list(enumerate(events, 1)))]


def test_the_unedited_log_is_valid() -> None:
    assert _violations() == []
    updates = [event.priorities for event in log() if isinstance(event, e.PrioritiesUpdated)]
    assert [list(priorities) for priorities in updates] == [[ALICE, BOB]] * len(UPDATES)
    assert all(priorities[ALICE] > 0.5 for priorities in updates)


@pytest.mark.parametrize("number", range(len(UPDATES)))
@pytest.mark.parametrize("name", [ALICE, BOB])
@pytest.mark.parametrize("factor", [1.0001, 0.9999, 2.0, float("nan"), float("inf")])
def test_an_edited_priority_is_detected(number: int, name: str, factor: float) -> None:
    event = log()[_nth(e.PrioritiesUpdated, number)]
    assert isinstance(event, e.PrioritiesUpdated)
    priorities = event.priorities | {name: event.priorities[name] * factor}
    assert (name, "priority") in _violations((e.PrioritiesUpdated, number, {"priorities": priorities}))


@pytest.mark.parametrize("number", range(len(UPDATES)))
def test_a_missing_priority_is_detected(number: int) -> None:
    event = log()[_nth(e.PrioritiesUpdated, number)]
    assert isinstance(event, e.PrioritiesUpdated)
    priorities = {name: value for name, value in event.priorities.items() if name != ALICE}
    assert _violations((e.PrioritiesUpdated, number, {"priorities": priorities}))[0] == (ALICE, "priority")


@together(
    ("kind", "number", "changes", "thing", "rule"),
    [
        (e.PrioritiesUpdated, 0, {"priorities": {"nobody@x": 0.5}}, "nobody@x", "reference"),
        (e.PoolFounded, 0, {"settings": {"PRIORITY_HALFLIFE": "-1"}}, "pool", "value"),
        (e.PoolFounded, 0, {"settings": {"PRIORITY_HALFLIFE": "3600"}}, ALICE, "priority"),
        (e.ClaimMade, 0, {"submitter": "mallory@x"}, "mallory@x", "priority"),
        (e.SubmitterSet, 0, {"name": "colour"}, BOB, "granted"),
        (e.SubmitterSet, 0, {"value": 0.25}, BOB, "granted"),
        (e.SubmitterSet, 0, {"value": 21.0}, BOB, "priority"),
        (e.SubmitterSet, 0, {"value": float("inf")}, BOB, "granted"),
        (e.SubmitterSet, 0, {"until": 9}, BOB, "granted"),
        (e.SubmitterSet, 1, {"value": 0.5}, BOB, "granted"),
        (e.SubmitterSet, 1, {"until": 1}, BOB, "granted"),
        (e.SubmitterSet, 2, {"until": 0}, BOB, "granted"),
        (e.SubmitterSet, 2, {"until": 1 << 60}, BOB, "granted"),
        (e.SubmitterSet, 3, {"name": "floor"}, BOB, "granted"),
        (e.SubmitterSet, 3, {"name": "usage"}, BOB, "granted"),
        (e.SubmitterSet, 4, {"value": -2.0}, CAROL, "granted"),
        (e.SubmitterSet, 4, {"submitter": "other@x"}, CAROL, "reference"),
        (e.SubmitterSet, 0, {"user": "bob"}, BOB, "granted"),
        (e.SubmittersReset, 0, {"user": ""}, "accountant", "granted"),
        (e.SubmitterDeleted, 0, {"user": "carol"}, CAROL, "granted"),
        (e.SubmittersReset, 0, {"submitters": ()}, "accountant", "reference"),
        (e.SubmitterDeleted, 0, {"submitter": "nobody@x"}, "nobody@x", "reference"),
        (e.ClaimMade, 0, {"factor": 7.0}, ALICE, "factor"),
        (e.SubmitterSet, 0, {"factor": 7.0}, BOB, "factor"),
        (e.SubmitterSet, 1, {"factor": 1000.0}, BOB, "factor"),
        (e.SubmittersReset, 0, {"factors": {"new@x": 7.0}}, "new@x", "factor"),
        (e.SubmitterDeleted, 0, {"factor": 7.0}, CAROL, "factor"),
        (e.RequestAnswered, -1, {"stimulus": "another"}, "requests", "answer"),
    ],
)
def test_an_edited_event_is_detected(
    kind: type[e.Event], number: int, changes: dict[str, Any], thing: str, rule: str
) -> None:
    assert (thing, rule) in _violations((kind, number, changes))


# The settings


@together(
    ("settings", "message"),
    [
        ({"PRIORITY_HALFLIFE": "3600"}, ""),
        ({"PRIORITY_HALFLIFE": ""}, ""),
        ({"GROUP_PRIO_FACTOR_physics": "5"}, ""),
        ({"PRIORITY_HALFLIFE": "7200"}, "PRIORITY_HALFLIFE already is 7200"),
        ({"NICE_USER_PRIO_FACTOR": ""}, "NICE_USER_PRIO_FACTOR already is its default"),
        ({"PRIORITY_HALFLIFE": "soon"}, "PRIORITY_HALFLIFE = soon: give a number of seconds greater than 0"),
        ({"NEGOTIATOR_INTERVAL": ""}, "NEGOTIATOR_INTERVAL cannot go back to a default: it always has a value"),
        ({"PREEMPTION_REQUIREMENTS": "1 +"}, "PREEMPTION_REQUIREMENTS = 1 +: "),
        ({"COLOUR": "red"}, "COLOUR is not a setting of a pool; use one of "),
    ],
)
def test_reconfigured_settings_must_be_valid_and_changed(settings: dict[str, str], message: str) -> None:
    events = list(log())
    events.append(e.PoolConfigured(events[-1].at, "reconfigured", "again", settings))
    messages = [violation.words for violation in violations_of(list(enumerate(events, 1)))]
    assert len(messages) == bool(message) and all(text.startswith(message) for text in messages)


def test_priorities_must_age_with_the_configured_half_life() -> None:
    events = list(log())
    index = _nth(e.PrioritiesUpdated, 1)
    events.insert(index, e.PoolConfigured(events[index].at, "reconfigured", "again", {"PRIORITY_HALFLIFE": "60"}))
    assert (BOB, "priority") in [
        (violation.thing, violation.rule) for violation in violations_of(list(enumerate(events, 1)))
    ]


@together(
    "event",
    [
        e.PrioritiesUpdated(2**62, "accounted", "x", {ALICE: float("nan"), "nobody@x": -1e308}),
        e.SubmitterSet(2**62, "granted", "x", ALICE, "root", "usage", 1e308),
        e.SubmitterSet(2**62, "granted", "x", ALICE, "root", "__class__", 1.0),
        e.ClaimMade(2**62, "claimed", "x", "slot1@h", "c", ALICE, 2**62),
        e.SubmittersReset(-1, "granted", "x", ("", "a/b"), ""),
        e.SubmitterDeleted(2**62, "granted", "x", "", ""),
    ],
)
def test_nonsense_is_detected_and_does_not_stop_the_validation(event: e.Event) -> None:
    later = e.PrioritiesUpdated(2**62 + 1, "accounted", "y", {ALICE: 1.0})
    violations = violations_of(list(enumerate([*log(), event, later], 1)))
    assert {violation.position for violation in violations} >= {len(log()) + 1, len(log()) + 2}
