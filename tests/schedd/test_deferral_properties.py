"""Property: whatever is done to jobs that wait for their time, and whenever the pool dies, none starts before its time,
no two runs of one job overlap, each job ends once, and the log records all of it."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.testing.invariants import plain_state
from poolbook.domain.events import JobActivated, JobDue, JobExecuting, JobExited, JobsTransitioned
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.domain.units import SECOND
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour

from ..domain.pools import JOB, TestPool
from ..sampling import examples

EXAMPLES = examples(8, 20)
WHEN_DUE = (
    "((time() + ScheddInterval) >= (DeferralTime - DeferralPrepTime)) && (time() < (DeferralTime + DeferralWindow))"
)
JOBS = {
    "once": {"DeferralTime": "QDate + 40", "DeferralWindow": "20"},
    "cron": {"CronMinute": '"*"', "OnExitRemove": "NumJobStarts >= 3", "DeferralWindow": "5"},
    "late": {"DeferralTime": "QDate - 5", "Requirements": "true"},
    "made": {"CronMinute": '"*/2"', "JobMaterializeMaxIdle": "1", "DeferralWindow": "30"},
    "local": {"JobUniverse": "12", "DeferralTime": "QDate + 30", "DeferralWindow": "10"},
}
COMMANDS = st.one_of(
    st.tuples(
        st.sampled_from(["hold", "release", "remove", "suspend", "continue", "vacate"]),
        st.sampled_from(["1", "2", "3", "4", "5", "4.1", "alice"]),
    ),
    st.tuples(st.just("edit"), st.sampled_from(["DeferralTime=time() + 7", 'CronMinute="*/3"', "DeferralWindow=0"])),
    st.tuples(st.sampled_from(["advance", "die"]), st.sampled_from(["0", "1", "10", "61"])),
)


class MortalPool(TestPool):
    def die(self, seconds: int) -> None:
        """Leave the pool unserved for this many seconds; its processes continue."""
        self.world.clock += seconds * SECOND
        self.log.raise_epoch("again", self.world.clock, "serve")
        self.engine = Engine(self.log, self.world)
        self.engine.recover()


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(sorted(JOBS)), min_size=1, max_size=5), st.lists(COMMANDS, max_size=14))
@example(["cron", "once"], [("advance", "10"), ("suspend", "1"), ("die", "61"), ("continue", "1"), ("advance", "61")])
def test_no_job_starts_before_its_time_or_twice(jobs: list[str], commands: list[tuple[str, str]]) -> None:
    pool = MortalPool(behave=lambda launch: Behaviour(4))
    pool.machine(cpus=2)
    attributes = {"DeferralWindow": "0", "DeferralPrepTime": "15", "ScheddInterval": "5", "Requirements": WHEN_DUE}
    for name in jobs:
        count = 3 if name == "made" else 1
        pool.handle(s.Submit(pool.id(), "alice", 0, {**JOB, **attributes, **JOBS[name]}, count, ()))
    for command, whom in commands:
        if command == "advance":
            pool.advance(int(whom))
        elif command == "die":
            pool.die(int(whom))
        elif command == "edit":
            name, _, text = whom.partition("=")
            pool.handle(s.Edit(pool.id(), "alice", s.Selection(clusters=(1, 2)), {name: text}))
        else:
            pool.act(command, whom)
    pool.advance(130)
    assert [str(violation.words) for violation in examine(pool.log.read()).violations] == []
    assert plain_state(fold(pool.log.read())) == plain_state(pool.state)
    waiting_jobs: dict[tuple[int, int], int] = {}
    leavings: Counter[tuple[int, int]] = Counter()
    for event in pool.events():
        match event:
            case JobActivated():
                assert (event.cluster, event.proc) not in waiting_jobs, "it runs already"
                waiting_jobs[event.cluster, event.proc] = event.deferred
            case JobDue():
                assert event.at >= waiting_jobs[event.cluster, event.proc]
                waiting_jobs[event.cluster, event.proc] = 0
            case JobExecuting():
                assert event.cause == "deferral_missed" or not waiting_jobs[event.cluster, event.proc]
            case JobExited():
                del waiting_jobs[event.cluster, event.proc]
            case JobsTransitioned(target="Left"):
                leavings.update((event.cluster, proc) for first, last in event.procs for proc in range(first, last + 1))
    assert set(leavings.values()) <= {1}
