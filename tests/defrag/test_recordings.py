"""golden: Poolbook repeats the decisions of condor_defrag on the recorded ads."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.adapters.runtime.pool_ads import statistics
from poolbook.domain.defrag.choice import (
    DialectRules,
    DrainCost,
    DrainDecision,
    DrainsBegun,
    EarlierPolls,
    average_costs,
    choose,
    drain_rates,
)
from poolbook.domain.defrag.drain_candidates import CandidateSlot, rank_of
from poolbook.domain.events import DefragCancel, DefragDrain, DefragPolled
from poolbook.domain.state.defrag_state import Defrag, fold_poll

from .recorded import FOLDERS, RecordedPoll, context_of, policy_of, questions_of, recorded_polls

SECOND = 1_000_000
HTCONDOR_HABITS = DialectRules(exceeds_maxima=True, stops_at_long_intervals=True)
STOPPED = {
    "rate": "number to drain in next",
    "concurrent": "DEFRAG_MAX_CONCURRENT_DRAINING=",
    "whole": "DEFRAG_MAX_WHOLE_MACHINES=",
    "": "",
}
each_recording = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def decide(folder: Path, recorded: RecordedPoll, last: int) -> DrainDecision:
    policy = policy_of(folder)
    before = EarlierPolls(last, DrainsBegun(0, 0))
    at, context = recorded.logged.at, context_of(recorded.logged)
    return choose(policy, questions_of(policy), recorded.slots, before, at, context, HTCONDOR_HABITS)


def decisions(folder: Path) -> list[tuple[RecordedPoll, DrainDecision]]:
    pairs, last = [], 0
    for recorded in recorded_polls(folder):
        pairs.append((recorded, decide(folder, recorded, last)))
        last = recorded.logged.at
    return pairs


@each_recording
def test_the_sets_of_draining_and_whole_machines_are_the_same(folder: Path) -> None:
    for recorded, decision in decisions(folder):
        assert (set(decision.draining), set(decision.whole)) == (recorded.logged.draining, recorded.logged.whole)


@each_recording
def test_a_poll_stops_for_the_same_reason(folder: Path) -> None:
    for recorded, decision in decisions(folder):
        assert bool(decision.stopped) == bool(recorded.logged.stopped)
        assert STOPPED[decision.stopped] in recorded.logged.stopped


@each_recording
def test_a_poll_looks_for_the_same_number_of_machines(folder: Path) -> None:
    for recorded, decision in decisions(folder):
        assert recorded.logged.wanted in (None, decision.wanted)


@each_recording
def test_the_same_drains_are_canceled(folder: Path) -> None:
    for recorded, decision in decisions(folder):
        assert sorted(cancel.seen.slot for cancel in decision.cancels) == sorted(recorded.logged.canceled)


@each_recording
def test_the_same_machines_are_drained_or_others_with_the_same_rank(folder: Path) -> None:
    rank = questions_of(policy_of(folder)).rank
    for recorded, decision in decisions(folder):
        ranks = {slot.slot: rank_of(slot, rank, context_of(recorded.logged)) for slot in recorded.slots}
        assert [drain.rank for drain in decision.drains] == [ranks[slot] for slot in recorded.logged.drained]


def cost_of(age: int, slot: CandidateSlot) -> DrainCost | None:
    """Return the cost of drains in a slot's ad, if condor_defrag reads that ad."""
    each_recording = ("TotalMachineDrainingBadput", "TotalMachineDrainingUnclaimedTime")
    if slot.ad.eval("SlotID") != 1 or not any(name in slot.ad for name in each_recording):
        return None
    badput, unclaimed = (int(slot.ad.eval(name)) if name in slot.ad else 0 for name in each_recording)
    return DrainCost(age, badput, unclaimed, int(slot.ad.eval("TotalCpus")))


@each_recording
def test_the_daemon_ad_is_the_same(folder: Path) -> None:
    policy, defrag = policy_of(folder), Defrag()
    for recorded, decision in decisions(folder):
        costs = [
            cost
            for age, slot in zip(recorded.ages, recorded.slots, strict=True)
            if (cost := cost_of(age, slot)) is not None
        ]
        event = DefragPolled(
            recorded.logged.at * SECOND, "polled", "p",
            decision.wanted, len(decision.draining), len(decision.whole), 0, decision.stopped,
            tuple(DefragDrain(slot, slot, 0.0, 0, 0, ()) for slot in recorded.logged.drained),
            tuple(DefragCancel(slot, slot, ()) for slot in recorded.logged.canceled),
            tuple(decision.draining - defrag.draining), tuple(defrag.draining - decision.draining),
            tuple(decision.whole - defrag.whole), tuple(defrag.whole - decision.whole), average_costs(costs),
        )  # fmt: skip
        fold_poll(defrag, event, policy.interval, policy.schedule.lower())
        if recorded.daemon is not None:
            now = int(recorded.daemon.eval("MyCurrentTime"))
            defrag.since = int(recorded.daemon.eval("DaemonStartTime")) * SECOND
            statistics_ad = statistics(defrag, policy, now * SECOND)
            compared_names = set(statistics_ad) - {
                "DaemonLastReconfigTime",
                "UpdateSequenceNumber",
                "RecentDrainsList",
                "RecentCancelsList",
            }
            recorded_ad = {name: recorded.daemon.eval(name) for name in compared_names}
            assert {name: pytest.approx(statistics_ad[name], abs=1e-9) for name in compared_names} == recorded_ad


def test_the_recordings_contain_all_cases() -> None:
    pairs = [pair for folder in FOLDERS for pair in decisions(folder)]
    assert {decision.stopped for _, decision in pairs} >= {"", "concurrent", "whole"}
    assert any(recorded.logged.canceled for recorded, _ in pairs)
    # Two machines may drain at once; one drained already, and two more were drained.
    assert any(len(decision.draining) + len(decision.drains) > 2 for _, decision in pairs)


def test_the_first_poll_of_an_hour_drains_the_machines_of_the_hour() -> None:
    folder = next(folder for folder in FOLDERS if folder.name == "defrag-new-hour")
    minutes = [(recorded.logged.at // 60 % 60, len(recorded.logged.drained)) for recorded, _ in decisions(folder)]
    assert [minute for minute, drained in minutes if drained == 2] == [0]
    assert sum(drained for _, drained in minutes) == 2


def test_the_rate_is_split_as_in_the_daemon_s_log() -> None:
    assert [drain_rates(360, 10), drain_rates(720, 10), drain_rates(2, 10)] == [(1, 0, 0), (2, 0, 0), (0, 2, 0)]
