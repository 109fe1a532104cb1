"""golden: the decisions of real condor_defrags, taken again on the ads that they saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.adapters.runtime.pool_ads import statistics
from poolbook.domain.defrag.choice import Before, Cost, Decision, DrainsBegun, Habits, averages, choose, rates
from poolbook.domain.defrag.drain_candidates import CandidateSlot, rank_of
from poolbook.domain.events import DefragCancel, DefragDrain, DefragPolled
from poolbook.domain.state.defrag_state import Defrag, polled

from .recorded import FOLDERS, Seen, asked, instant, policy_of, recorded

SECOND = 1_000_000
REAL = Habits(exceeds_maxima=True, stops_at_long_intervals=True)
STOPPED = {
    "rate": "number to drain in next",
    "concurrent": "DEFRAG_MAX_CONCURRENT_DRAINING=",
    "whole": "DEFRAG_MAX_WHOLE_MACHINES=",
    "": "",
}
names = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def decided(folder: Path, seen: Seen, last: int) -> Decision:
    policy = policy_of(folder)
    before = Before(last, DrainsBegun(0, 0))
    return choose(policy, asked(policy), seen.slots, before, seen.real.at, instant(seen.real), REAL)


def decisions(folder: Path) -> list[tuple[Seen, Decision]]:
    found, last = [], 0
    for seen in recorded(folder):
        found.append((seen, decided(folder, seen, last)))
        last = seen.real.at
    return found


@names
def test_the_machines_that_drain_and_those_that_are_whole_are_counted_alike(folder: Path) -> None:
    for seen, ours in decisions(folder):
        assert (set(ours.draining), set(ours.whole)) == (seen.real.draining, seen.real.whole)


@names
def test_a_poll_stops_for_the_same_reason(folder: Path) -> None:
    for seen, ours in decisions(folder):
        assert bool(ours.stopped) == bool(seen.real.stopped)
        assert STOPPED[ours.stopped] in seen.real.stopped


@names
def test_as_many_machines_are_looked_for(folder: Path) -> None:
    for seen, ours in decisions(folder):
        assert seen.real.wanted in (None, ours.wanted)


@names
def test_the_same_drains_are_canceled(folder: Path) -> None:
    for seen, ours in decisions(folder):
        assert sorted(one.seen.slot for one in ours.cancels) == sorted(seen.real.canceled)


@names
def test_the_same_machines_are_drained_or_others_of_the_same_rank(folder: Path) -> None:
    rank = asked(policy_of(folder)).rank
    for seen, ours in decisions(folder):
        by_name = {one.slot: rank_of(one, rank, instant(seen.real)) for one in seen.slots}
        assert [one.rank for one in ours.drains] == [by_name[slot] for slot in seen.real.drained]


def cost_of(age: int, slot: CandidateSlot) -> Cost | None:
    """What an ad tells of drains, if it is one of those that the daemon asks."""
    names = ("TotalMachineDrainingBadput", "TotalMachineDrainingUnclaimedTime")
    if slot.ad.eval("SlotID") != 1 or not any(name in slot.ad for name in names):
        return None
    badput, unclaimed = (int(slot.ad.eval(name)) if name in slot.ad else 0 for name in names)
    return Cost(age, badput, unclaimed, int(slot.ad.eval("TotalCpus")))


@names
def test_the_daemon_s_ad_is_the_same(folder: Path) -> None:
    policy, defrag = policy_of(folder), Defrag()
    for seen, ours in decisions(folder):
        costs = [
            cost for age, one in zip(seen.ages, seen.slots, strict=True) if (cost := cost_of(age, one)) is not None
        ]
        event = DefragPolled(
            seen.real.at * SECOND, "polled", "p", ours.wanted, len(ours.draining), len(ours.whole), 0, ours.stopped,
            tuple(DefragDrain(slot, slot, 0.0, 0, 0, ()) for slot in seen.real.drained),
            tuple(DefragCancel(slot, slot, ()) for slot in seen.real.canceled),
            tuple(ours.draining - defrag.draining), tuple(defrag.draining - ours.draining),
            tuple(ours.whole - defrag.whole), tuple(defrag.whole - ours.whole), averages(costs),
        )  # fmt: skip
        polled(defrag, event, policy.interval, policy.schedule.lower())
        if seen.daemon is not None:
            now = int(seen.daemon.eval("MyCurrentTime"))
            defrag.since = int(seen.daemon.eval("DaemonStartTime")) * SECOND
            mine = statistics(defrag, policy, now * SECOND)
            same = set(mine) - {
                "DaemonLastReconfigTime",
                "UpdateSequenceNumber",
                "RecentDrainsList",
                "RecentCancelsList",
            }
            theirs = {name: seen.daemon.eval(name) for name in same}
            assert {name: pytest.approx(mine[name], abs=1e-9) for name in same} == theirs


def test_the_recordings_have_what_they_are_for() -> None:
    told = [one for folder in FOLDERS for one in decisions(folder)]
    assert {ours.stopped for _, ours in told} >= {"", "concurrent", "whole"}
    assert any(seen.real.canceled for seen, _ in told)
    # Of two machines that may drain at once one drained already, and two more were drained.
    assert any(len(ours.draining) + len(ours.drains) > 2 for _, ours in told)


def test_the_first_poll_of_an_hour_has_what_is_for_the_hour() -> None:
    folder = next(folder for folder in FOLDERS if folder.name == "defrag-new-hour")
    minutes = [(seen.real.at // 60 % 60, len(seen.real.drained)) for seen, _ in decisions(folder)]
    assert [minute for minute, drained in minutes if drained == 2] == [0]
    assert sum(drained for _, drained in minutes) == 2


def test_the_rate_is_divided_as_the_daemon_s_log_says() -> None:
    assert [rates(360, 10), rates(720, 10), rates(2, 10)] == [(1, 0, 0), (2, 0, 0), (0, 2, 0)]
