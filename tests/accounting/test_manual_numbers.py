"""Golden: the numbers of the manual's pages about user priorities ("User Priorities and Negotiation", "Priority
Calculation", "Priorities and Preemption")."""

from __future__ import annotations

from itertools import pairwise

import pytest

from poolbook.domain import events as e
from poolbook.domain.negotiator.accounting import aged, factor, terms
from poolbook.domain.state.accounting_groups import group_of
from poolbook.domain.state.pool_settings import complete_settings
from poolbook.domain.state.records import Submitter

from ..together import together
from .books import DAY, HOUR, Books

# Real priorities


@together(
    ("begins", "days", "is_then"),
    [
        (100, 1, 50.0),  # "one day later that user's priority will be 50, and two days later the priority will be 25"
        (100, 2, 25.0),
        (10, 1, 5.0),  # "a user with a RUP of 10 has no running jobs, that user's RUP would be 5 one day later"
        (10, 2, 2.5),
        (1, 1, 0.5),
        (1, 2, 0.5),  # "one half (0.5), which is the lowest possible value"
    ],
)
def test_who_uses_nothing_has_half_its_priority_a_day_later(begins: float, days: int, is_then: float) -> None:
    books = Books()
    books.tell(0, e.SubmitterSet, "granted", "alice@here", "root", "priority", float(begins))
    books.update(days * DAY)
    assert books.real("alice") == is_then


@pytest.mark.parametrize(
    ("halflife", "is_then"), [("86400", 50.0), ("43200", 25.0), ("3600", 0.5), ("172800", 70.7106781187)]
)
def test_the_half_life_is_a_setting(halflife: str, is_then: float) -> None:
    books = Books(PRIORITY_HALFLIFE=halflife)
    books.tell(0, e.SubmitterSet, "granted", "alice@here", "root", "priority", 100.0)
    books.update(DAY)
    assert books.real("alice") == is_then


def test_every_user_begins_with_one_half() -> None:
    books = Books()
    books.appears(0, "alice")
    assert books.real("alice") == 0.5
    books.update(5 * DAY)
    assert books.real("alice") == 0.5


@pytest.mark.parametrize(
    ("hours", "is_then"),
    [
        (0, 0.5),
        (24, 50.25),  # 100 cores run for 24 hours ...
        (48, 25.125),  # ... and then none
        (72, 12.5625),
        (240, 0.5),
    ],
)
def test_a_hundred_cores_for_a_day_and_then_none(hours: int, is_then: float) -> None:
    books = Books()
    books.appears(0, "alice")
    claim = books.claim(0, "alice", 100)
    books.update(min(hours, 24) * HOUR)
    books.release(min(hours, 24) * HOUR, claim)
    books.update(hours * HOUR)
    assert books.real("alice") == is_then


def test_who_uses_ten_cores_for_long_has_a_priority_of_ten() -> None:
    books = Books()
    books.appears(0, "alice")
    books.claim(0, "alice", 10)
    before = 0.5
    for day in range(1, 41):
        books.update(day * DAY)
        assert before <= books.real("alice") <= 10
        before = books.real("alice")
    assert before == pytest.approx(10, abs=1e-9)


def test_the_formula_is_that_of_priority_calculation() -> None:
    beta = 0.5 ** (1000 / 86_400)
    assert aged(7.0, 3.0, 1000, 86_400) == beta * 7.0 + (1 - beta) * 3.0


# Shares


def _shares(priorities: dict[str, float]) -> dict[str, float]:
    """ "inversely related to the ratio between the EUPs" """
    parts = {name: 1 / priority for name, priority in priorities.items()}
    return {name: part / sum(parts.values()) for name, part in parts.items()}


def test_five_gets_twice_as_much_as_ten_and_four_times_as_much_as_twenty() -> None:
    books = Books()
    for name, priority in (("a", 5.0), ("b", 10.0), ("c", 20.0)):
        books.tell(0, e.SubmitterSet, "granted", f"{name}@here", "root", "priority", priority)
        books.tell(0, e.SubmitterSet, "granted", f"{name}@here", "root", "factor", 1.0)
    share = _shares({name: books.effective(name) for name in "abc"})
    assert share["a"] == pytest.approx(2 * share["b"])
    assert share["a"] == pytest.approx(4 * share["c"])


def test_by_the_formula_a_factor_of_2000_grants_half_as_many_cores_and_not_twice_as_many() -> None:
    """The prose of "Effective User Priority" says "twice as many"; its own formula, and the reference, say half."""
    books = Books()
    books.appears(0, "alice", "bob")
    books.tell(0, e.SubmitterSet, "granted", "bob@here", "root", "factor", 2000.0)
    share = _shares({name: books.effective(name) for name in ("alice", "bob")})
    assert share["bob"] == pytest.approx(share["alice"] / 2)


def test_two_users_of_a_hundred_cores_come_to_half_of_them_each() -> None:
    """A has the pool for 48 hours, then B comes; each quarter of an hour both have what they deserve."""
    books = Books()
    for name in ("a", "b"):
        books.tell(0, e.SubmitterSet, "granted", f"{name}@here", "root", "factor", 1.0)
    claim = books.claim(0, "a", 100)
    for quarter in range(1, 48 * 4):
        books.update(quarter * HOUR / 4)
    books.update(48 * HOUR)
    books.release(48 * HOUR, claim)
    assert books.real("a") == pytest.approx(75.125, rel=1e-11)  # "should be about 75.0 at the 48 hour mark"
    assert books.real("b") == 0.5
    share: list[float] = []
    for quarter in range(30 * 24 * 4):
        at = 48 * HOUR + quarter * HOUR / 4
        share.append(100 * _shares({name: books.effective(name) for name in ("a", "b")})["a"])
        claims = [books.claim(at, "a", share[-1]), books.claim(at, "b", 100 - share[-1])]
        books.update(at + HOUR / 4)
        for one in claims:
            books.release(at + HOUR / 4, one)
    assert share[0] == pytest.approx(100 / 151.25)  # "from all 100 cores to less than one core immediately"
    assert 3 < share[4] < 6  # an hour later: "will quickly rebound to a handful of cores"
    assert all(after > before - 1e-6 for before, after in pairwise(share))
    assert share[24 * 4] == pytest.approx(40.8, abs=0.2)
    assert share[-1] == pytest.approx(50, abs=1e-3)  # "will asymptotically approach half of the pool"


# Factors


@together(
    ("name", "more", "is_then"),
    [
        ("alice@here", {}, 1000.0),
        ("alice@there", {}, 1000.0),  # without ACCOUNTANT_LOCAL_DOMAIN all users are local
        ("alice@here", {"DEFAULT_PRIO_FACTOR": "1"}, 1.0),
        ("alice@here", {"ACCOUNTANT_LOCAL_DOMAIN": "here"}, 1000.0),
        ("alice@there", {"ACCOUNTANT_LOCAL_DOMAIN": "here"}, 1e7),
        ("alice@there", {"ACCOUNTANT_LOCAL_DOMAIN": "here", "REMOTE_PRIO_FACTOR": "2e4"}, 2e4),
        ("nice-user.alice@here", {}, 1e10),
        ("nice-user.alice@there", {"ACCOUNTANT_LOCAL_DOMAIN": "here"}, 1e10),
        ("nice-user.alice@here", {"NICE_USER_PRIO_FACTOR": "500"}, 500.0),
        ("physics.alice@here", {"GROUP_PRIO_FACTOR_physics": "30"}, 30.0),
        ("PHYSICS.alice@here", {"GROUP_PRIO_FACTOR_physics": "30"}, 30.0),
        ("physics.alice@there", {"GROUP_PRIO_FACTOR_physics": "30", "ACCOUNTANT_LOCAL_DOMAIN": "here"}, 30.0),
        ("chemistry.alice@here", {"GROUP_PRIO_FACTOR_physics": "30"}, 1000.0),
        ("physics.hep.alice@here", {"GROUP_PRIO_FACTOR_physics.hep": "20"}, 20.0),
    ],
)
def test_the_factor_that_nobody_set_is_that_of_the_settings(name: str, more: dict[str, str], is_then: float) -> None:
    assert factor(Submitter(name), terms(complete_settings(more)), 0) == is_then


def test_the_factor_that_was_set_goes_before_those_of_the_settings() -> None:
    rules = terms(complete_settings({"ACCOUNTANT_LOCAL_DOMAIN": "here", "GROUP_PRIO_FACTOR_physics": "30"}))
    for name in ("alice@there", "nice-user.alice@here", "physics.alice@here"):
        assert factor(Submitter(name, factor=7.0), rules, 0) == 7.0


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("alice@here", ""),
        ("physics.alice@here", "physics"),
        ("physics.hep.alice@here", "physics.hep"),
        ("group_a.joe@elsewhere@here.org", "group_a"),
        ("joe@else.where@here.org", ""),
    ],
)
def test_a_submitters_group_is_what_stands_before_the_last_point_of_its_name(name: str, group: str) -> None:
    assert group_of(name) == group
