"""property: the split of a rate of drains per hour into whole numbers for each poll, as in HTCondor."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.defrag.choice import DrainRates, DrainsBegun, drain_rates, drains_left, machines_to_drain
from poolbook.domain.units import DAY, HOUR

from ..together import together


@together(
    ("per_hour", "interval", "expected"),
    [
        (1, 600, DrainRates(0, 1, 0)),  # the manual's example, at HTCondor's interval
        (6, 600, DrainRates(1, 0, 0)),
        (7, 600, DrainRates(1, 1, 0)),
        (60, 600, DrainRates(10, 0, 0)),
        (60, 10, DrainRates(0, 60, 0)),  # less than one per poll: all at the start of an hour
        (0.5, 600, DrainRates(0, 0, 12)),  # half a machine per hour is twelve per day
        (0.02, 600, DrainRates(0, 0, 0)),  # less than one in two days
        (0.03, 600, DrainRates(0, 0, 1)),
        (1.5, 3600, DrainRates(1, 0, 12)),
        (2.25, 900, DrainRates(0, 2, 6)),
        (0, 600, DrainRates(0, 0, 0)),
        (60, 700, DrainRates(11, 3, 10)),
        (1, 7200, DrainRates(2, 0, 0)),
    ],
)
def test_a_rate_is_split_into_whole_machines_per_poll_hour_and_day(
    per_hour: float, interval: int, expected: DrainRates
) -> None:
    assert drain_rates(per_hour, interval) == expected


@together(
    ("last", "now", "expected"),
    [
        (0, 12 * HOUR, 0),  # the first poll never starts a new hour
        (12 * HOUR - 600, 12 * HOUR, 4),
        (12 * HOUR, 12 * HOUR + 600, 0),
        (12 * HOUR - 300, 12 * HOUR + 300, 4),  # up to one interval late counts as on time
        (11 * HOUR, 12 * HOUR + 1800, 3),  # 4 * (1/2 + 1/6), rounded
        (11 * HOUR, 12 * HOUR + 3599, 1),
        (3 * HOUR, 12 * HOUR, 4),  # missed hours are lost
    ],
)
def test_the_first_poll_of_an_hour_gets_its_machines_and_fewer_if_it_is_late(
    last: int, now: int, expected: int
) -> None:
    assert machines_to_drain(DrainRates(0, 4, 0), 600, last, now) == expected


@together(
    ("last", "now", "expected"),
    [
        (DAY - 600, DAY, 12),
        (DAY, DAY + 600, 0),
        (DAY - 600, DAY + DAY // 2, 6),
        (DAY - 600, 3 * DAY - 600, 0),  # no machines are left in the last minutes of a day
    ],
)
def test_the_first_poll_of_a_day_gets_its_machines(last: int, now: int, expected: int) -> None:
    assert machines_to_drain(DrainRates(0, 0, 12), 600, last, now) == expected


def _polls(interval: int, phase: int, days: int) -> list[int]:
    return list(range(100 * DAY + phase, (100 + days) * DAY, interval))


@given(st.floats(0, 200), st.integers(10, 3600), st.integers(0, 3599))
def test_polls_on_time_drain_the_configured_rate_over_several_days(per_hour: float, interval: int, phase: int) -> None:
    polls = _polls(interval, phase % interval, 4)
    rate = drain_rates(per_hour, interval)
    drained = sum(machines_to_drain(rate, interval, last, now) for last, now in pairwise(polls))
    expected = per_hour * (polls[-1] - polls[0]) / HOUR
    # Machines per day are rounded; the machines of an hour or a day come at its start.
    assert abs(drained - expected) <= 0.5 * 4 + rate.poll + rate.hour + rate.day + 4.01


@given(
    st.lists(st.tuples(st.floats(0, 50), st.integers(60, 7200), st.integers(1, 9000)), min_size=1, max_size=40),
    st.integers(0, DAY),
)
def test_no_hour_or_day_has_more_drains_than_the_settings_at_its_last_drain_allow(
    polls: list[tuple[float, int, int]], start: int
) -> None:
    now, last = 100 * DAY + start, 0
    in_hour: dict[int, int] = {}
    in_day: dict[int, int] = {}
    for per_hour, interval, elapsed in polls:
        now += elapsed
        hour, day = now // HOUR, now // DAY
        drains_begun = DrainsBegun(in_hour.get(hour, 0), in_day.get(day, 0))
        allowed = drains_left(per_hour, interval, drains_begun)
        drained = min(machines_to_drain(drain_rates(per_hour, interval), interval, last, now), allowed)
        in_hour[hour], in_day[day], last = drains_begun.in_hour + drained, drains_begun.in_day + drained, now
        if drained:
            assert in_day[day] <= per_hour * 24 + 0.51
            assert interval > HOUR or in_hour[hour] <= int(per_hour + 0.00001) + round((per_hour % 1) * 24) + 1


@pytest.mark.parametrize("per_hour", [1, 5, 60])
def test_an_integer_rate_is_never_exceeded_in_an_hour(per_hour: int) -> None:
    assert drains_left(per_hour, 600, DrainsBegun(per_hour, 0)) == 0
    assert drains_left(per_hour, 600, DrainsBegun(0, 24 * per_hour - 1)) == 1
