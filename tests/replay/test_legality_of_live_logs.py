"""Property: the validator finds no violation in any log that the live engine wrote, whatever the commands were."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from poolbook.domain.events import JobActivated, JobExited, JobsTransitioned, SlotTransitioned
from poolbook.replay.validation import examine

from .virtual_pool import Pool

USERS = st.sampled_from(["alice", "bob"])
CLUSTERS = st.integers(1, 4)
PROCS = st.integers(0, 3)
JOBS = st.one_of(st.builds("{}.{}".format, CLUSTERS, PROCS), st.builds(str, CLUSTERS))
THINGS = st.one_of(JOBS, st.sampled_from(["alice", "bob", "all"]))
ENDS = st.sampled_from(["", "end=signal", "end=failure", "end=lost"])
GRACES = st.sampled_from(["0", "5", "700", "-1"])


class AnyHistory(RuleBasedStateMachine):
    """Users and the machine's owner give random commands, and time passes."""

    @initialize(dialect=st.sampled_from(["manual", "htcondor-25"]), kind=st.sampled_from(["static", "partitionable"]))
    def begin(self, dialect: str, kind: str) -> None:
        self.pool = Pool(dialect)
        self.pool.say(f"machine h Cpus=3 Memory=4096 kind={kind} slots=2")
        for user, grace in (("alice", 5), ("bob", 700), ("alice", -1)):
            self.pool.say(f"submit {user} 3 seconds=600 grace={grace}")

    @rule(
        user=USERS,
        count=st.integers(1, 4),
        seconds=st.integers(1, 90),
        grace=GRACES,
        end=ENDS,
        prio=st.integers(0, 2),
        options=st.sampled_from(["", "hold", "differ", "memory=9000", "maxvacate=20"]),
    )
    def submit(self, user: str, count: int, seconds: int, grace: str, end: str, prio: int, options: str) -> None:
        self.pool.say(f"submit {user} {count} seconds={seconds} grace={grace} prio={prio} {end} {options}")

    @rule(
        user=USERS,
        thing=THINGS,
        action=st.sampled_from(["hold", "release", "release", "remove", "suspend", "continue"]),
    )
    def act(self, user: str, thing: str, action: str) -> None:
        self.pool.say(f"{action} {user} {thing}")

    @rule(user=USERS, job=JOBS, fast=st.sampled_from(["", "fast"]))
    def vacate(self, user: str, job: str, fast: str) -> None:
        self.pool.say(f"vacate {user} {job} {fast}")

    @rule(
        slot=st.sampled_from(["slot1@h", "slot2@h", "slot1_1@h", "slot2_1@h", "h"]), fast=st.sampled_from(["", "fast"])
    )
    def vacate_slot(self, slot: str, fast: str) -> None:
        self.pool.say(f"vacate root {slot} {fast}")

    @rule(user=USERS, thing=THINGS, prio=st.integers(0, 3))
    def edit(self, user: str, thing: str, prio: int) -> None:
        self.pool.say(f"edit {user} {thing} JobPrio={prio}")

    @precondition(lambda self: self.pool.engine.state.by_job)
    @rule(index=st.integers(0, 9), exceeds=st.booleans())
    def change_memory_use(self, index: int, exceeds: bool) -> None:
        running = sorted(self.pool.engine.state.by_job)
        cluster, proc = running[index % len(running)]
        if not exceeds:
            self.pool.say(f"measure {cluster}.{proc} {1000 + index}")
        elif not self.pool.engine.state.by_job[cluster, proc].stop_signal:
            self.pool.say(f"exceed {cluster}.{proc}")

    @rule(command=st.sampled_from(["machine g slots=1", "machine h", "leave g", "leave h", "another writer"]))
    def change_pool(self, command: str) -> None:
        if command != "another writer":
            self.pool.say(command)
            return
        self.pool.log.raise_epoch("another", self.pool.engine.world.now(), "serve")
        self.pool.engine.load()

    @rule(seconds=st.sampled_from([0.5, 5, 61, 1300]))
    def pass_time(self, seconds: float) -> None:
        self.pool.say(f"run {seconds} s")

    def teardown(self) -> None:
        """Check that there is no violation. This reads the whole log, so one check at the end is enough."""
        if hasattr(self, "pool"):
            violations = examine(self.pool.log.read()).violations
            assert not violations, "\n".join([f"{violations[0].thing}: {violations[0].words}", *violations[0].story])
            check_counts(self.pool)


def check_counts(pool: Pool) -> None:
    """Check that the verdict's counts equal independent counts of the log."""
    events = [event for _, event in pool.events()]
    verdict = examine(pool.log.read())
    assert verdict.events == len(events)
    slots = Counter(event.row for event in events if isinstance(event, SlotTransitioned))
    assert {number: count for number, count in verdict.slots.items() if count} == slots
    jobs = Counter(event.row for event in events if isinstance(event, JobExited) and event.row)
    jobs["activate"] += sum(isinstance(event, JobActivated) for event in events)
    for event in events:
        if isinstance(event, JobsTransitioned):
            jobs[event.row] += sum(last - first + 1 for first, last in event.procs)
    job_counts = {
        row: count for row, count in verdict.jobs.items() if count and row not in ("submit", "submit_on_hold")
    }
    assert job_counts == {row: count for row, count in jobs.items() if count}


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(
    max_examples=6, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
