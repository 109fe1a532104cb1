"""Golden: the numbers in the manual's sections on user priorities ("User Priorities and Negotiation", "Priority
Calculation", "Priorities and Preemption")."""

from __future__ import annotations

from itertools import pairwise

import pytest

from poolbook.domain import events as e
from poolbook.domain.negotiator.accounting import accountant_settings, priority_factor, smoothed_priority
from poolbook.domain.state.accounting_groups import group_of
from poolbook.domain.state.pool_settings import complete_settings
from poolbook.domain.state.records import Submitter

from ..together import together
from .accounts import DAY, HOUR, Accounts

# Real priorities


@together(
    ("start", "days", "expected"),
    [
        (100, 1, 50.0),  # "one day later that user's priority will be 50, and two days later the priority will be 25"
        (100, 2, 25.0),
        (10, 1, 5.0),  # "a user with a RUP of 10 has no running jobs, that user's RUP would be 5 one day later"
        (10, 2, 2.5),
        (1, 1, 0.5),
        (1, 2, 0.5),  # "one half (0.5), which is the lowest possible value"
    ],
)
def test_a_submitter_without_usage_has_half_its_priority_a_day_later(start: float, days: int, expected: float) -> None:
    accounts = Accounts()
    accounts.record(0, e.SubmitterSet, "granted", "alice@here", "root", "priority", float(start))
    accounts.update(days * DAY)
    assert accounts.real_priority("alice") == expected


@pytest.mark.parametrize(
    ("halflife", "expected"), [("86400", 50.0), ("43200", 25.0), ("3600", 0.5), ("172800", 70.7106781187)]
)
def test_the_half_life_is_a_setting(halflife: str, expected: float) -> None:
    accounts = Accounts(PRIORITY_HALFLIFE=halflife)
    accounts.record(0, e.SubmitterSet, "granted", "alice@here", "root", "priority", 100.0)
    accounts.update(DAY)
    assert accounts.real_priority("alice") == expected


def test_every_user_starts_with_a_priority_of_one_half() -> None:
    accounts = Accounts()
    accounts.submit(0, "alice")
    assert accounts.real_priority("alice") == 0.5
    accounts.update(5 * DAY)
    assert accounts.real_priority("alice") == 0.5


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        (0, 0.5),
        (24, 50.25),  # 100 cores run for 24 hours ...
        (48, 25.125),  # ... and then none
        (72, 12.5625),
        (240, 0.5),
    ],
)
def test_a_hundred_cores_for_a_day_and_then_none(hours: int, expected: float) -> None:
    accounts = Accounts()
    accounts.submit(0, "alice")
    claim = accounts.claim(0, "alice", 100)
    accounts.update(min(hours, 24) * HOUR)
    accounts.release(min(hours, 24) * HOUR, claim)
    accounts.update(hours * HOUR)
    assert accounts.real_priority("alice") == expected


def test_constant_use_of_ten_cores_leads_to_a_priority_of_ten() -> None:
    accounts = Accounts()
    accounts.submit(0, "alice")
    accounts.claim(0, "alice", 10)
    before = 0.5
    for day in range(1, 41):
        accounts.update(day * DAY)
        assert before <= accounts.real_priority("alice") <= 10
        before = accounts.real_priority("alice")
    assert before == pytest.approx(10, abs=1e-9)


def test_the_formula_is_the_one_in_priority_calculation() -> None:
    beta = 0.5 ** (1000 / 86_400)
    assert smoothed_priority(7.0, 3.0, 1000, 86_400) == beta * 7.0 + (1 - beta) * 3.0


# Shares


def _shares(priorities: dict[str, float]) -> dict[str, float]:
    """ "inversely related to the ratio between the EUPs" """
    inverses = {name: 1 / priority for name, priority in priorities.items()}
    return {name: inverse / sum(inverses.values()) for name, inverse in inverses.items()}


def test_a_priority_of_5_gets_twice_the_share_of_10_and_four_times_that_of_20() -> None:
    accounts = Accounts()
    for name, priority in (("a", 5.0), ("b", 10.0), ("c", 20.0)):
        accounts.record(0, e.SubmitterSet, "granted", f"{name}@here", "root", "priority", priority)
        accounts.record(0, e.SubmitterSet, "granted", f"{name}@here", "root", "factor", 1.0)
    share = _shares({name: accounts.effective_priority(name) for name in "abc"})
    assert share["a"] == pytest.approx(2 * share["b"])
    assert share["a"] == pytest.approx(4 * share["c"])


def test_a_factor_of_2000_instead_of_1000_halves_the_number_of_cores() -> None:
    """The text of "Effective User Priority" says "twice as many"; its formula and HTCondor give half as many."""
    accounts = Accounts()
    accounts.submit(0, "alice", "bob")
    accounts.record(0, e.SubmitterSet, "granted", "bob@here", "root", "factor", 2000.0)
    share = _shares({name: accounts.effective_priority(name) for name in ("alice", "bob")})
    assert share["bob"] == pytest.approx(share["alice"] / 2)


def test_two_users_of_a_hundred_cores_converge_to_half_of_them_each() -> None:
    """User A has the pool for 48 hours, then B starts; the cores are divided again every quarter of an hour."""
    accounts = Accounts()
    for name in ("a", "b"):
        accounts.record(0, e.SubmitterSet, "granted", f"{name}@here", "root", "factor", 1.0)
    claim = accounts.claim(0, "a", 100)
    for quarter in range(1, 48 * 4):
        accounts.update(quarter * HOUR / 4)
    accounts.update(48 * HOUR)
    accounts.release(48 * HOUR, claim)
    assert accounts.real_priority("a") == pytest.approx(75.125, rel=1e-11)  # "should be about 75.0 at the 48 hour mark"
    assert accounts.real_priority("b") == 0.5
    share: list[float] = []
    for quarter in range(30 * 24 * 4):
        at = 48 * HOUR + quarter * HOUR / 4
        share.append(100 * _shares({name: accounts.effective_priority(name) for name in ("a", "b")})["a"])
        claims = [accounts.claim(at, "a", share[-1]), accounts.claim(at, "b", 100 - share[-1])]
        accounts.update(at + HOUR / 4)
        for claim in claims:
            accounts.release(at + HOUR / 4, claim)
    assert share[0] == pytest.approx(100 / 151.25)  # "from all 100 cores to less than one core immediately"
    assert 3 < share[4] < 6  # an hour later: "will quickly rebound to a handful of cores"
    assert all(after > before - 1e-6 for before, after in pairwise(share))
    assert share[24 * 4] == pytest.approx(40.8, abs=0.2)
    assert share[-1] == pytest.approx(50, abs=1e-3)  # "will asymptotically approach half of the pool"


# Factors


@together(
    ("name", "settings", "expected"),
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
def test_the_settings_determine_the_default_factor(name: str, settings: dict[str, str], expected: float) -> None:
    assert priority_factor(Submitter(name), accountant_settings(complete_settings(settings)), 0) == expected


def test_a_factor_that_was_set_overrides_the_settings() -> None:
    rules = accountant_settings(
        complete_settings({"ACCOUNTANT_LOCAL_DOMAIN": "here", "GROUP_PRIO_FACTOR_physics": "30"})
    )
    for name in ("alice@there", "nice-user.alice@here", "physics.alice@here"):
        assert priority_factor(Submitter(name, factor=7.0), rules, 0) == 7.0


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
def test_a_submitter_s_group_is_the_part_before_the_last_dot_of_its_name(name: str, group: str) -> None:
    assert group_of(name) == group
