"""Golden: cycles of an HTCondor negotiator with two access points, and how the jobs of one submitter share slots."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest
from attrs import define, field

from poolbook.domain import events as e
from poolbook.domain.names import JOBS_PER_ACCESS_POINT
from poolbook.domain.state.peers import MANAGER

from .pools import JOB, Pool

RECORDED = Path(__file__).parents[1] / "data/many/09-negotiator.log.gz"
SLOTS = 4
Ad = tuple[str, str]
"""A submitter ad: the submitter and its access point."""


@define
class RecordedCycle:
    """A cycle of the negotiator."""

    at: str
    priorities: dict[str, float] = field(factory=dict)
    used: dict[str, int] = field(factory=dict)
    idle: dict[Ad, int] = field(factory=dict)  #: in the order in which the ads were negotiated
    limits: dict[Ad, float] = field(factory=dict)  #: in the first spin
    matches: Counter[Ad] = field(factory=Counter)
    is_known: bool = True  #: whether the log has the usage of all submitters


def recorded_cycles() -> list[RecordedCycle]:
    """Return the cycles in which slots were free, and whose log has the usage of all submitters."""
    cycles: list[RecordedCycle] = []
    ad, spins = ("", ""), 0
    for line in gzip.decompress(RECORDED.read_bytes()).decode().splitlines():
        number = float(found[1]) if (found := re.search(r"(\d[\d.]*)$", line.strip())) else 0.0
        if "Started" in line:
            cycles.append(RecordedCycle(line[:8]))
            spins = 0
        elif "Phase 4" in line:
            spins += 1
        elif found := re.search(r"Negotiating with (\S+) (?:at (\S+)|skipped)", line):
            ad = found[1], found[2] or ""
            cycles[-1].is_known &= bool(found[2])
        elif "SubmitterPrio " in line:
            cycles[-1].priorities.setdefault(ad[0], number)
        elif "submitterUsage" in line:
            cycles[-1].used.setdefault(ad[0], round(number))
        elif "submitterLimit" in line and spins == 1:
            cycles[-1].limits.setdefault(ad, number)
        elif found := re.search(r"request count 1 of (\d+)", line):
            cycles[-1].idle.setdefault(ad, int(found[1]))
        elif "Match completed" in line:
            cycles[-1].matches[ad] += 1
    return [cycle for cycle in cycles if sum(cycle.used.values()) < SLOTS and cycle.idle and cycle.is_known]


def pool_with(*access_points: str, dialect: str = "htcondor-25", **configured: str) -> Pool:
    """Return a pool whose manager has read from these access points, in this order."""
    pool = Pool(dialect, MANAGER, **configured)
    for name in access_points:
        pool.tell(e.Followed, "followed", f"access-point/{name}", f"log of {name}", 1, 1, "")
    return pool


def submit(pool: Pool, user: str, access_point: int, count: int, **ad: str) -> None:
    number = access_point * JOBS_PER_ACCESS_POINT + pool.serial()
    ad = JOB | {"Owner": f'"{user}"', "User": f'"{user}"'} | ad
    pool.tell(e.ClusterSubmitted, "submitted", number, user, ad, count, {}, "Idle")


def matches_by_ad(pool: Pool) -> list[tuple[str, int]]:
    """Return the submitter and the number of the access point of each match, in order."""
    return [(choice.cluster.submitter, choice.cluster.id // JOBS_PER_ACCESS_POINT) for choice in pool.hold().choices]


CYCLES = recorded_cycles()


@pytest.mark.parametrize("cycle", CYCLES, ids=lambda cycle: str(cycle.at))
def test_each_recorded_cycle_gives_the_same_number_of_slots_to_each_submitter_at_each_access_point(
    cycle: RecordedCycle,
) -> None:
    names = list(dict.fromkeys(name for _, name in cycle.idle))
    pool = pool_with(*names)
    pool.slots(SLOTS)
    for user, priority in cycle.priorities.items():
        for _ in range(cycle.used[user]):
            pool.claim(next(slot.name for slot in pool.state.slots.values() if slot.claim is None), user)
        pool.state.submitter(user).set_priority(priority / 1000, pool.now)
    for (user, name), count in cycle.idle.items():
        submit(pool, user, names.index(name) + 1, count)
    found = Counter((user, names[number - 1]) for user, number in matches_by_ad(pool))
    assert found == cycle.matches


def test_the_recording_has_cycles_in_which_two_access_points_of_a_submitter_compete() -> None:
    assert len([cycle for cycle in CYCLES if len(cycle.idle) > len({user for user, _ in cycle.idle})]) == 5


def test_the_jobs_at_each_access_point_may_exceed_the_share_by_one_slot() -> None:
    pool = pool_with("ap1", "ap2")
    pool.slots(5)
    submit(pool, "a", 1, 10)
    submit(pool, "a", 2, 10)
    submit(pool, "b", 1, 10)
    assert matches_by_ad(pool)[:3] == [("a", 1), ("a", 1), ("a", 2)]


@pytest.mark.parametrize(("dialect", "first"), [("htcondor-25", 1), ("manual", 2)])
def test_only_the_manual_compares_priorities_between_access_points(dialect: str, first: int) -> None:
    pool = pool_with("ap1", "ap2", dialect=dialect)
    pool.slots(1)
    submit(pool, "a", 1, 1)
    submit(pool, "a", 2, 1, JobPrio="10")
    assert matches_by_ad(pool) == [("a", first)]


@pytest.mark.parametrize("dialect", ["htcondor-25", "manual"])
def test_with_fair_access_points_each_one_has_equally_many_slots(dialect: str) -> None:
    pool = pool_with("ap1", "ap2", "ap3", dialect=dialect, NEGOTIATOR_FAIR_ACCESS_POINTS="true")
    pool.slots(7)
    for number in (1, 2):
        pool.tell(
            e.ClaimMade, "claimed", f"slot{number}@h", f"c{number}", "a", 1000, 0.0, "access-point/ap1", f"{number}.0",
        )  # fmt: skip
        pool.move(f"slot{number}@h", "Claimed/Idle")
        pool.move(f"slot{number}@h", "Claimed/Busy")
    for number in (1, 2, 3):
        submit(pool, "a", number, 10)
    assert Counter(number for _, number in matches_by_ad(pool)) == {2: 2, 3: 2, 1: 1}


def test_slots_that_one_access_point_does_not_need_go_to_the_others() -> None:
    pool = pool_with("ap1", "ap2", NEGOTIATOR_FAIR_ACCESS_POINTS="true")
    pool.slots(6)
    submit(pool, "a", 1, 10)
    submit(pool, "a", 2, 1)
    assert Counter(number for _, number in matches_by_ad(pool)) == {1: 5, 2: 1}
