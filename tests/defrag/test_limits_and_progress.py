"""property: after any input, no more machines drain than configured, and a large job gets its machine."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.fold.evolve import evolve, fold
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.log import LogUnavailable
from poolbook.domain.state.defrag_state import Defrag
from poolbook.domain.state.state import State
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.validation import examine

from ..domain.test_invariants import Flaky, bounds
from ..sampling import soak_examples
from .pools import REASON, DefragPool

SECOND, HOUR, DAY = 1_000_000, 3600, 86400
SETTINGS = st.fixed_dictionaries(
    {
        "INTERVAL": st.sampled_from([30, 60, 600, 1800]),
        "DRAINING_MACHINES_PER_HOUR": st.sampled_from([0, 0.5, 1, 3, 60, 400]),
        "MAX_CONCURRENT_DRAINING": st.sampled_from([-1, 0, 1, 2]),
        "MAX_WHOLE_MACHINES": st.sampled_from([-1, 0, 1, 3]),
        "CANCEL_REQUIREMENTS": st.sampled_from(["", " ", "Cpus >= 2"]),
        "DRAINING_SCHEDULE": st.sampled_from(["graceful", "quick", "fast"]),
    }
)


def draining_by_defrag(state: State) -> int:
    drains = [machine.drain for machine in state.machines.values()]
    return sum(drain is not None and drain.reason == REASON for drain in drains)


def exceeded_limits(events: list[e.Event]) -> list[str]:
    """Return the limits that the polls of a log exceeded."""
    state, violations = State(), []
    in_hour: dict[int, int] = {}
    in_day: dict[int, int] = {}
    last = 0
    for event in events:
        before = state.settings
        evolve(state, event)
        if not isinstance(event, e.DefragPolled):
            continue
        drains_begun = sum(not drain.refused for drain in event.drains)
        values = {name: float(before.get(f"DEFRAG_{name}", default)) for name, default in DEFAULTS.items()}
        second, rate = event.at // SECOND, values["DRAINING_MACHINES_PER_HOUR"]
        hour, day = second // HOUR, second // DAY
        in_hour[hour], in_day[day] = in_hour.get(hour, 0) + drains_begun, in_day.get(day, 0) + drains_begun
        if last and second - last < values["INTERVAL"]:
            violations.append(f"a poll {second - last} s after the last")
        last = second
        if drains_begun:
            daily_extra = round(rate % 1 * 24)
            limits = {
                "in an hour": (in_hour[hour], int(rate) + daily_extra),
                "in a day": (in_day[day], int(rate) * 24 + daily_extra),
                "at once": (event.draining + drains_begun, values["MAX_CONCURRENT_DRAINING"]),
                "whole": (event.whole + drains_begun, values["MAX_WHOLE_MACHINES"]),
            }
            violations += [f"{value} {limit}" for limit, (value, most) in limits.items() if 0 <= most < value]
    return violations


DEFAULTS = {
    "INTERVAL": 600, "DRAINING_MACHINES_PER_HOUR": 0, "MAX_CONCURRENT_DRAINING": -1, "MAX_WHOLE_MACHINES": -1,
}  # fmt: skip


class DefragMachine(RuleBasedStateMachine):
    """A pool with defragmentation that is reconfigured and killed, and whose log sometimes fails."""

    @initialize(configured=SETTINGS, machines=st.integers(1, 4), retirement=st.sampled_from([0, 100, 4000]))
    def create_pool(self, configured: dict[str, Any], machines: int, retirement: int) -> None:
        self.log = Flaky(open_log("memory:", create=True))
        self.pool = DefragPool("manual", self.log, **configured)  # type: ignore[arg-type]
        self.pool.machines(*(f"m{number}" for number in range(machines)), retirement=retirement)
        self.pool.run(20_000, count=4)

    def attempt(self, action: Any) -> None:
        with suppress(LogUnavailable):
            action()

    @rule(seconds=st.sampled_from([1, 20, 100, 900, 4000]))
    def time_passes(self, seconds: int) -> None:
        self.attempt(lambda: self.pool.advance(seconds))
        self.log.failing = 0

    @rule(seconds=st.sampled_from([10, 300, 5000]), cpus=st.integers(1, 4), user=st.sampled_from(["alice", "bob"]))
    def submit(self, seconds: int, cpus: int, user: str) -> None:
        self.attempt(lambda: self.pool.run(seconds, cpus=cpus, user=user))

    @rule(configured=SETTINGS)
    def reconfigure(self, configured: dict[str, Any]) -> None:
        self.attempt(lambda: self.pool.configure(**configured))

    @rule(name=st.sampled_from(["", "other@cm"]))
    def switch_off_or_rename(self, name: str) -> None:
        self.attempt(lambda: self.pool.configure(NAME=name or " ", INTERVAL=60, DRAINING_MACHINES_PER_HOUR=60))

    @rule()
    def crash(self) -> None:
        self.log.failing = 0
        self.pool.crash()

    @rule(number=st.integers(0, 3), graceful=st.booleans())
    def drain(self, number: int, graceful: bool) -> None:
        schedule = "Graceful" if graceful else "Fast"
        self.attempt(
            lambda: self.pool.handle(s.Drain(self.pool.id(), "root", f"m{number}", schedule, "mine", "resume"))
        )

    @rule(number=st.integers(0, 3))
    def cancel(self, number: int) -> None:
        self.attempt(lambda: self.pool.handle(s.CancelDrain(self.pool.id(), "root", f"m{number}")))

    @rule()
    def fill_the_disk(self) -> None:
        self.log.failing = 1

    @invariant()
    def the_state_is_the_log_folded(self) -> None:
        assert self.pool.state.defrag == fold(self.log.read()).defrag

    def teardown(self) -> None:
        events = [event for _, event in self.log.read()]
        assert exceeded_limits(events) == []
        assert examine(self.log.read()).violations == []
        recheck_result = recheck(self.log.read())
        assert (recheck_result.differences, recheck_result.stopped) == ([], "")


def test_drains_never_exceed_the_configured_limits() -> None:
    run_state_machine_as_test(DefragMachine, settings=bounds(4, 12))


@pytest.mark.soak
def test_drains_never_exceed_the_configured_limits_in_many_examples() -> None:
    run_state_machine_as_test(DefragMachine, settings=bounds(soak_examples(20), 40))


@settings(max_examples=4, deadline=None)
@given(
    cores=st.sampled_from([2, 4, 8]),
    machines=st.integers(1, 3),
    retirement=st.sampled_from([0, 60, 1800]),
    interval=st.sampled_from([60, 300, 600]),
    per_hour=st.sampled_from([1, 2, 12]),
    small=st.lists(st.integers(100, 100_000), min_size=1, max_size=6),
)
def test_a_large_job_on_a_fragmented_pool_runs_within_a_bounded_time(
    cores: int, machines: int, retirement: int, interval: int, per_hour: int, small: list[int]
) -> None:
    """The bound includes the time until the first poll of the next hour, the retirement and the vacating of the running
    jobs, and the policy evaluations that notice the end of the drain."""
    pool = DefragPool(INTERVAL=interval, DRAINING_MACHINES_PER_HOUR=per_hour)
    names = [f"m{number}" for number in range(machines)]
    pool.machines(*names, cpus=cores, retirement=retirement)
    for seconds in small:
        pool.run(seconds, count=cores * machines)
    pool.advance(5)
    pool.run(10, cpus=cores, user="bob")
    large = f"{len(small) + 1}.0"
    waited, bound = 0, HOUR + interval + retirement + 600 + 2 * 300 + 60
    while pool.status(large) == "Idle" and waited <= bound:
        pool.advance(60)
        waited += 60
    assert pool.status(large) != "Idle"


def test_without_defragmentation_the_large_job_waits_for_the_small_ones() -> None:
    pool = DefragPool(NAME=" ")
    pool.machines("m1")
    pool.run(40_000, count=4)
    pool.run(10, cpus=4, user="bob")
    pool.advance(30_000)
    assert pool.status("2.0") == "Idle"


def test_a_recovered_pool_polls_at_the_same_times() -> None:
    pool = DefragPool(INTERVAL=600, DRAINING_MACHINES_PER_HOUR=6)
    pool.machines("m1")
    pool.advance(100)
    pool.crash()
    pool.advance(2000)
    first, *others = [poll.at for poll in pool.polls()]
    assert [at - first for at in others] == [600 * SECOND, 1200 * SECOND, 1800 * SECOND]


def test_switching_defragmentation_off_resets_its_counts_but_keeps_its_last_poll() -> None:
    pool = DefragPool(INTERVAL=60, DRAINING_MACHINES_PER_HOUR=60)
    pool.machines("m1", "m2")
    pool.run(36_000, count=5)
    pool.advance(130)
    before = pool.state.defrag
    assert before.successes.total == 2
    pool.configure(NAME=" ")
    assert pool.state.defrag == Defrag(
        configured=pool.world.clock, last_poll=before.last_poll, in_hour=before.in_hour, in_day=before.in_day
    )
    pool.advance(1000)
    assert pool.state.defrag.last_poll == before.last_poll
