"""Property: the clock in a slot's ad shows its local time, and the time of its next change is known."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from poolbook.domain.classad import Context
from poolbook.domain.events import JobActivated, SlotTransitioned
from poolbook.domain.startd.dynamic_attributes import moving_attributes
from poolbook.domain.startd.evaluation import PolicyEvaluation
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.caches import Caches
from poolbook.domain.state.machine_times import ZONE
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import EPOCH

from ..domain.pools import TestPool
from ..together import together
from .points import Point

DAY = 86_400


@together(
    ("start", "keyboard", "console", "turns"),
    [
        # START; for how long there has been no input at all, and none at the console; when the slot leaves Owner, in a
        # round of every 20 s
        ("KeyboardIdle > 900", 0, 600, 920), ("KeyboardIdle > 900", 300, 0, 620), ("ConsoleIdle > 900", 0, 600, 320),
        ("ConsoleIdle > 900", 300, 0, 920), ("KeyboardIdle > 900 && ConsoleIdle > 900", 0, 600, 920),
    ],
)  # fmt: skip
def test_a_slot_stays_in_owner_state_while_the_input_that_its_policy_reads_is_recent(
    start: str, keyboard: int, console: int, turns: int
) -> None:
    point = Point("htcondor-25")
    begin = point.world.clock
    point.read(last_input=begin - keyboard * 1_000_000, last_console=begin - console * 1_000_000)
    point.point({"Start": start, "IS_OWNER": "Start =?= false"})
    point.advance(1000)
    assert point.pair() == "Unclaimed/Idle"
    (moved_at,) = [event.at for event in point.events() if isinstance(event, SlotTransitioned)]
    assert round((moved_at - begin) / 1_000_000) == turns


@pytest.mark.parametrize(
    ("zone", "noon"),
    [
        ("UTC", "2026-03-28T12:00"),
        ("Asia/Kolkata", "2026-03-28T12:00"),
        ("Europe/Berlin", "2026-03-28T12:00"),  # one hour is skipped in the night
        ("America/New_York", "2026-10-31T12:00"),  # one hour occurs twice
    ],
)
def test_the_clock_follows_the_zone_until_the_reported_change(zone: str, noon: str) -> None:
    point, local_zone = Point("manual"), ZoneInfo(zone)
    point.point({})
    slot = point.slot()
    begin = int(datetime.fromisoformat(noon).replace(tzinfo=local_zone).timestamp())
    for now in range(begin, begin + DAY, 2_221):
        snapshot = PolicyEvaluation(
            point.state, slot, point.world.sense, now * 1_000_000, Context(now=now, timezone=local_zone), Caches()
        ).snapshot()
        moving = moving_attributes(snapshot)
        clock, day = moving["clockmin"], moving["clockday"]
        assert clock.until is not None and day.until is not None and now < clock.until <= day.until
        for instant in (now, clock.until - 1):
            wall = datetime.fromtimestamp(instant, local_zone)
            assert (instant - clock.origin) // 60 == wall.hour * 60 + wall.minute, wall
            assert (instant - day.origin) // DAY == wall.isoweekday() % 7, wall


def test_clocks_show_the_local_time_of_the_slots_machine_wherever_they_are_read() -> None:
    pool = TestPool()  # which is in UTC
    for name, ad in (("plain", {}), ("madrid", {ZONE: '"Europe/Madrid"'}), ("tokyo", {ZONE: '"Asia/Tokyo"'})):
        pool.machine(name, 2, 2048, **ad)  # type: ignore[arg-type]
    for month, hours in ((0, {"plain": 8, "madrid": 9, "tokyo": 17}), (6, {"plain": 8, "madrid": 10, "tokyo": 17})):
        now = EPOCH // SECOND + month * 30 * DAY
        published = PublishedSlots(pool.state, Caches(), now * SECOND, Context(now=now))
        ads = {slot.machine: published.ad(slot) for slot in pool.state.slots.values()}
        assert {name: (ad.eval("ClockMin"), ad.eval("ClockDay")) for name, ad in ads.items()} == {
            name: (hour * 60, datetime.fromtimestamp(now, UTC).isoweekday() % 7) for name, hour in hours.items()
        }
    pool.submit(Requirements="TARGET.ClockMin >= 17 * 60")
    pool.advance(30)
    assert [event.slot for event in pool.events() if isinstance(event, JobActivated)] == ["slot1_1@tokyo"]
