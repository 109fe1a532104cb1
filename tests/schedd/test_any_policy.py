"""Property: whatever policies jobs have, and whatever users, machines, time and crashes do to them, each created job
ends once, no policy acts on a job that has left, no limit is exceeded, the log is legal, and a restarted pool continues
like one that was not. This includes factories, retries, schedules, edits and the queue's limits together."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from poolbook.adapters.runtime.engine import Engine
from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.domain.schedd.periodic_policy import BY_CAUSE
from poolbook.domain.state.records import RUNS
from poolbook.domain.state_machines import LEFT
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour

from ..domain.pools import TestPool
from ..job_commands import job_command
from ..sampling import examples

HOLDS = ("JobStatus == 1 && NumHolds =?= undefined", "time() - EnteredCurrentStatus > 90", "NumShadowStarts > 1",
         "RemoteWallClockTime > 150", "Wanted =?= true", "ExitCode =?= 1", "Missing > 3", "false")  # fmt: skip
RELEASES = ("HoldReasonCode == 3 && NumHolds < 3", "time() - EnteredCurrentStatus > 200", "Wanted =!= true", "1/0")
REMOVES = (
    "NumHolds > 3",
    "time() - QDate > 700",
    "JobStatus == 5 && Wanted =?= true",
    "NumJobCompletions > 1",
    "false",
)
VACATES = ("NumShadowStarts < 2", "time() - JobCurrentStartDate > 100 && NumShadowStarts < 4", "Missing", "false")
ENDS = ("ExitCode == 0", "NumJobCompletions > 2", "true")
SYSTEMS: tuple[dict[str, str], ...] = (
    {},
    {"SYSTEM_PERIODIC_HOLD_NAMES": "A, B", "SYSTEM_PERIODIC_HOLD_A": "NumShadowStarts > 3",
     "SYSTEM_PERIODIC_HOLD_B": "Wanted =?= 3", "SYSTEM_PERIODIC_REMOVE": "NumHolds > 4", "SYSTEM_MAX_RELEASES": "3"},
    {"SYSTEM_PERIODIC_VACATE": "time() - JobCurrentStartDate > 200", "PERIODIC_EXPR_INTERVAL": "20",
     "SYSTEM_PERIODIC_RELEASE": "HoldReasonCode == 3 && NumHolds < 4"},
    {"MAX_JOBS_RUNNING": "1", "MAX_JOBS_PER_OWNER": "14", "SYSTEM_ON_VACATE_COOL_DOWN": "45",
     "START_LOCAL_UNIVERSE": "TARGET.ProcId < 3 && TotalLocalJobsRunning < 1"},
)  # fmt: skip
FEW = examples(5, 1)
LOCAL = 5
JOBS = st.sampled_from(["1.0", "1.1", "1.2", "2.0", "2.1", "2.2", "3.0", "3.1", "3", "4", "5.0", "5.1", "5", "alice"])
FACTORY, LIMIT, MAX_IDLE = 3, "JobMaterializeLimit", "JobMaterializeMaxIdle"
RETRIES = {"OnExitRemove": "NumJobCompletions > JobMaxRetries || ExitCode == 0", "JobMaxRetries": "2"}
SCHEDULE = {"CronMinute": '"*/2"', "DeferralWindow": "30", "OnExitRemove": "NumJobStarts >= 2"}
LIMITS = st.sampled_from(["0", "1", "2", "5"])


class AnyPolicy(RuleBasedStateMachine):
    """Two submissions of three jobs, a factory of six jobs with retries, and a job with a schedule, on two slots; and
    three jobs of the local universe, of which START_LOCAL_UNIVERSE may permit one at a time."""

    pool: TestPool
    most: int  #: the largest number of the factory's jobs that were in the queue together

    @initialize(
        system=st.sampled_from(SYSTEMS), hold=st.sampled_from(HOLDS), release=st.sampled_from(RELEASES),
        remove=st.sampled_from(REMOVES), vacate=st.sampled_from(VACATES), end=st.sampled_from(ENDS),
        seconds=st.sampled_from([30, 130, 400]), code=st.sampled_from([0, 1]),
    )  # fmt: skip
    def begin(
        self,
        system: dict[str, str],
        hold: str,
        release: str,
        remove: str,
        vacate: str,
        end: str,
        seconds: int,
        code: int,
    ) -> None:
        self.behave = lambda launch: Behaviour(seconds, code=code)
        self.pool = TestPool(settings=dict(system), behave=self.behave)
        self.pool.machine(static=2, cpus=2)
        self.pool.submit(3, QDate="1800000000", PeriodicHold=hold, PeriodicRelease=release, PeriodicRemove=remove)
        self.pool.submit(3, QDate="1800000000", PeriodicVacate=vacate, OnExitRemove=end, AllowedJobDuration="500")
        self.pool.submit(6, **RETRIES, PeriodicHold=hold, **{LIMIT: "3", MAX_IDLE: "2"})
        self.pool.submit(1, **SCHEDULE)
        self.pool.submit(3, JobUniverse="12", OnExitRemove=end, PeriodicHold=hold, PeriodicRelease=release)
        self.most = 3

    @rule(seconds=st.sampled_from([1, 19, 60, 61, 240]))
    def wait(self, seconds: int) -> None:
        self.pool.advance(seconds)

    @rule(job=JOBS, action=st.sampled_from(["hold", "release", "vacate", "suspend", "continue"]))
    def act(self, job: str, action: str) -> None:
        self.pool.act(action, job)

    @rule(job=JOBS)
    def remove(self, job: str) -> None:
        self.pool.act("remove", job)

    @rule(job=JOBS, requested=st.sampled_from(["true", "3", "undefined"]))
    def edit(self, job: str, requested: str) -> None:
        self.pool.edit(job, Wanted=requested)

    @rule(name=st.sampled_from([LIMIT, MAX_IDLE]), number=LIMITS)
    def change_a_limit(self, name: str, number: str) -> None:
        answer = self.pool.handle(s.Edit(self.pool.id(), "alice", s.Selection(clusters=(FACTORY,)), {name: number}))
        if name == LIMIT and not answer.refusal:
            self.most = max(self.most, int(number) or 6)

    @rule(paused=st.sampled_from(["1", "0"]))
    def pause(self, paused: str) -> None:
        self.pool.edit(str(FACTORY), JobMaterializePaused=paused)

    @rule(count=st.integers(1, 3))
    def submit_more(self, count: int) -> None:
        limit = self.pool.state.settings.get("MAX_JOBS_PER_OWNER")
        answer = self.pool.submit(count, PeriodicRemove="time() - QDate > 600", QDate="1800000000")
        live = sum(cluster.live for cluster in self.pool.state.clusters.values())
        assert limit is None or answer.refusal or live <= int(limit)

    @rule()
    def restart(self) -> None:
        """Kill the pool's process between two steps; another process folds the log, and the jobs continue."""
        before = self._ads()
        self.pool.engine = Engine(self.pool.log, self.pool.world)
        self.pool.engine.load()
        assert self._ads() == before

    def _ads(self) -> list[dict[str, str]]:
        clusters = self.pool.state.clusters.values()
        return [cluster.attributes(proc) for cluster in clusters for proc in cluster.procs()]

    @invariant()
    def each_job_leaves_once_and_has_no_events_afterwards(self) -> None:
        if not hasattr(self, "pool"):
            return
        left_jobs: set[tuple[int, int]] = set()
        for event in self.pool.events():
            if isinstance(event, e.JobsTransitioned):
                jobs = {(event.cluster, proc) for first, last in event.procs for proc in range(first, last + 1)}
                assert not jobs & left_jobs
                if event.target == LEFT:
                    left_jobs |= jobs
            elif isinstance(event, e.JobSignalled) and event.cause in BY_CAUSE:
                assert (event.cluster, event.proc) not in left_jobs
        clusters = self.pool.state.clusters
        procs = {(number, proc) for number, cluster in clusters.items() for proc in cluster.procs()}
        assert procs | left_jobs == self._made()
        assert not procs & left_jobs

    def _made(self) -> set[tuple[int, int]]:
        """Return the jobs that ever were in the queue."""
        new_jobs: set[tuple[int, int]] = set()
        for event in self.pool.events():
            if isinstance(event, e.ClusterSubmitted) and not event.factory:
                new_jobs |= {(event.cluster, proc) for proc in range(event.count)}
            elif isinstance(event, e.JobsMaterialized):
                new = {(event.cluster, proc) for first, last in event.procs for proc in range(first, last + 1)}
                assert not new & new_jobs
                new_jobs |= new
        return new_jobs

    @invariant()
    def no_limit_is_exceeded(self) -> None:
        if not hasattr(self, "pool"):
            return
        state = self.pool.state
        factory = state.clusters.get(FACTORY)
        assert factory is None or factory.live <= self.most
        on_slots = [activation for activation in state.activations.values() if activation.cluster != LOCAL]
        assert len(on_slots) <= int(state.settings.get("MAX_JOBS_RUNNING", "2"))
        local = state.clusters.get(LOCAL)
        running = 0 if local is None else sum(local.status_of(proc) in RUNS for proc in local.procs())
        assert running <= (1 if "START_LOCAL_UNIVERSE" in state.settings else 3)

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        assert examine(self.pool.log.read()).violations == []
        self.pool.advance(3000)
        self.pool.handle(job_command(self.pool.id(), "alice", "remove", s.Selection(everything=True)))
        self.pool.advance(60)
        self.each_job_leaves_once_and_has_no_events_afterwards()
        assert not self.pool.state.clusters
        assert examine(self.pool.log.read()).violations == []


AnyPolicy.TestCase.settings = settings(
    max_examples=FEW, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAnyPolicy = AnyPolicy.TestCase
