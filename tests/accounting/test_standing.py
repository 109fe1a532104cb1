"""Golden: the standing of submitters: group, priority and usage at a time."""

from __future__ import annotations

import pytest

from poolbook.domain.negotiator.accounting import Standing, accountant_settings, shares, standings
from poolbook.domain.state.accounting_groups import NO_GROUP
from poolbook.domain.state.records import Submitter

from ..together import together

SECOND = 1_000_000
GROUPS = ("group_physics", "Group_Physics.hep", "group_chemistry")
RULES = accountant_settings({"PRIORITY_HALFLIFE": "100", "GROUP_PRIO_FACTOR_group_chemistry": "5"})


def standing(submitter: Submitter, accounted: int = 0, at: int = 0, now: int = 0) -> Standing:
    (only,) = standings([submitter], RULES, GROUPS, accounted * SECOND, at * SECOND, now * SECOND)
    return only


@together(
    ("name", "group"),
    [
        ("alice@x", NO_GROUP),
        ("group_physics@x", NO_GROUP),
        ("group_physics.alice@x", "group_physics"),
        ("group_physics.hep.alice@x", "Group_Physics.hep"),
        ("group_physics.hep.higgs.alice@x", "Group_Physics.hep"),
        ("group_physics.lep.alice@x", "group_physics"),
        ("group_biology.alice@x", NO_GROUP),
        ("GROUP_chemistry.alice@group_physics.x", "group_chemistry"),
    ],
)
def test_a_submitter_belongs_to_the_innermost_existing_group(name: str, group: str) -> None:
    assert standing(Submitter(name)).group == group


def test_a_priority_is_reported_as_of_the_last_update() -> None:
    alice = Submitter("alice@x", priority=8.0, updated=0)
    assert [standing(alice, accounted=at, at=999).priority for at in (0, 100, 200, 10_000)] == [8.0, 4.0, 2.0, 0.5]
    later = Submitter("alice@x", priority=8.0, updated=300 * SECOND)
    assert standing(later, accounted=200).priority == 8.0
    assert standing(later).effective == 8000.0
    assert standing(Submitter("group_chemistry.alice@x", priority=8.0)).effective == 40.0


def test_the_priority_of_a_submitter_without_slots_ages_and_otherwise_is_that_of_the_last_update() -> None:
    def priority(submitter: Submitter, until: int) -> float:
        (only,) = standings([submitter], RULES, (), 0, 0, 0, until * SECOND)
        return only.priority

    idle, busy = Submitter("alice@x", priority=8.0), Submitter("bob@x", priority=8.0, slots=1, weighted_in_use=1000)
    assert [priority(idle, until) for until in (0, 100, 200, 10_000)] == [8.0, 4.0, 2.0, 0.5]
    assert [priority(busy, until) for until in (0, 100, 200, 10_000)] == [8.0, 8.0, 8.0, 8.0]
    later = Submitter("alice@x", priority=8.0, updated=300 * SECOND)
    assert [priority(later, until) for until in (200, 300, 400)] == [8.0, 8.0, 4.0]
    ended = Submitter("alice@x", priority=8.0, weighted_usage=50 * SECOND * 4000)  # four cores for half of the time
    assert priority(ended, 100) == 5.0


def test_running_claims_count_until_the_reported_time() -> None:
    alice = Submitter("alice@x", weighted_in_use=2500, slots=2, counted_until=50 * SECOND, first_used=40 * SECOND)
    alice.weighted_usage, alice.unweighted_usage = 10 * SECOND * 2500, 20 * SECOND
    at_60 = standing(alice, accounted=55, at=60)
    assert (at_60.slots, at_60.cores, at_60.used, at_60.held) == (2, 2.5, 50.0, 40.0)
    assert (at_60.begin, at_60.last) == (40.0, 60.0)
    assert standing(alice, at=45).used == 25.0  # the usage includes the time until 50
    ended = Submitter("alice@x", counted_until=50 * SECOND, weighted_usage=7 * SECOND * 1000, last_used=50 * SECOND)
    assert (standing(ended, at=60).used, standing(ended, at=60).last) == (7.0, 50.0)


def test_a_leased_value_applies_until_the_lease_expires() -> None:
    leases = {"factor": (2.0, 10 * SECOND), "floor": (3.0, 20 * SECOND), "ceiling": (4.0, 30 * SECOND)}
    alice = Submitter("alice@x", factor=7.0, floor=1.0, ceiling=9.0, leases=leases)
    over_time = [standing(alice, now=now) for now in (9, 10, 20, 30)]
    assert [(values.factor, values.floor, values.ceiling) for values in over_time] == [
        (2.0, 3.0, 4.0), (7.0, 3.0, 4.0), (7.0, 1.0, 4.0), (7.0, 1.0, 9.0),
    ]  # fmt: skip


def test_shares_are_proportional_to_the_inverse_effective_priorities() -> None:
    submitters = [Submitter(name, priority) for name, priority in (("c@x", 20.0), ("a@x", 5.0), ("b@x", 10.0))]
    ordered = standings(submitters, RULES, (), 0, 0, 0)
    assert [submitter.name for submitter in ordered] == ["a@x", "b@x", "c@x"]
    assert shares(ordered, {"a@x", "b@x", "c@x"}) == pytest.approx({"a@x": 4 / 7, "b@x": 2 / 7, "c@x": 1 / 7})
    assert shares(ordered, {"b@x"}) == {"b@x": 1.0}
    assert shares(ordered, ()) == {}
