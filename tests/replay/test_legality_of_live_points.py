"""Property: the judge finds nothing in any log that execution points write, whatever their owners, administrators and
holders of claims do."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from poolbook.replay.validation import examine

from .virtual_point import BACKFILL, PointPool

POLICIES = (
    "",
    "MaxJobRetirementTime=100",
    'WANT_SUSPEND=Activity=="Busy" SUSPEND=KeyboardIdle<60 CONTINUE=KeyboardIdle>120 PREEMPT=Activity=="Suspended"&&'
    "time()-EnteredCurrentActivity>90 KILL=time()-EnteredCurrentActivity>15 MaxJobRetirementTime=50",
    "IS_OWNER=KeyboardIdle<60 PREEMPT=LoadAvg>0.5 WANT_VACATE=JobPrio>0 Start=KeyboardIdle>60",
    "CLAIM_WORKLIFE=100 RUNBENCHMARKS=time()-LastBenchmark>600 CpuBusy=LoadAvg>0.3 Rank=TARGET.JobPrio "
    "IS_OWNER=CpuBusyTime>200 MachineMaxVacateTime=30 MaxJobRetirementTime=TARGET.JobPrio>0?10:300",
    "PREEMPT=KeyboardIdle<60 PREEMPT_VANILLA=JobPrio>0&&KeyboardIdle<30 WANT_HOLD=JobPrio>0",
    "START_BACKFILL=true EVICT_BACKFILL=KeyboardIdle<60",
    "START_BACKFILL=KeyboardIdle>30 IS_OWNER=KeyboardIdle<60 EVICT_BACKFILL=LoadAvg-CondorLoadAvg>0.5",
    "START_BACKFILL=time()-EnteredCurrentState>30 RUNBENCHMARKS=time()-LastBenchmark>600 CLAIM_WORKLIFE=100",
)
SLOTS = st.sampled_from(["slot1@h", "slot2@h", "slot1_1@h"])
COMPLETIONS = st.sampled_from(["", "", "completion=resume", "completion=exit"])


class AnyPoint(RuleBasedStateMachine):
    @initialize(
        dialect=st.sampled_from(["manual", "htcondor-25"]),
        kind=st.sampled_from(["static", "partitionable"]),
        policy=st.sampled_from(POLICIES),
    )
    def begin(self, dialect: str, kind: str, policy: str) -> None:
        self.pool = PointPool(dialect)
        self.claims = 0
        self.pool.say(f"machine h Cpus=2 Memory=4096 kind={kind} slots=2 {policy}")
        self.pool.say(f"configure h {BACKFILL}")
        self.pool.say("run 10 min")

    @rule(what=st.sampled_from(["exit h", "exit h 1", "client h immortal", "client h seconds=20", "client h"]))
    def client(self, what: str) -> None:
        self.pool.say(what)

    @rule(settings=st.sampled_from([BACKFILL, BACKFILL.replace("EXEC", "BOINC"), ""]))
    def configure(self, settings: str) -> None:
        if "h" in self.pool.engine.state.machines:
            self.pool.say(f"configure h {settings}")

    @rule(grace=st.sampled_from(["5", "-1"]), prio=st.integers(0, 1), seconds=st.sampled_from([20, 900]))
    def submit(self, grace: str, prio: int, seconds: int) -> None:
        self.pool.say(f"submit alice 1 seconds={seconds} grace={grace} prio={prio}")

    @rule(what=st.sampled_from(["touch h", "load h 0.9", "load h 0", "undrain h", "off h Graceful", "off h Fast"]))
    def owner(self, what: str) -> None:
        if "h" in self.pool.engine.state.machines:
            self.pool.say(what)

    @rule(
        schedule=st.sampled_from(["Graceful", "Quick", "Fast"]),
        completion=COMPLETIONS,
        start=st.sampled_from(["", "start=true"]),
    )
    def drain(self, schedule: str, completion: str, start: str) -> None:
        self.pool.say(f"drain h {schedule} {completion} {start}")

    @rule(slot=SLOTS, what=st.sampled_from(["freeze", "thaw", "vacate root", "notify", "fail", "withdraw", "give"]))
    def command(self, slot: str, what: str) -> None:
        self.pool.say(f"{what} {slot}")

    @rule(slot=SLOTS, lease=st.sampled_from(["", "lease=60"]))
    def claim(self, slot: str, lease: str) -> None:
        self.claims += 1
        self.pool.say(f"claim {slot} c{self.claims} {lease}")

    @rule(slot=SLOTS, what=st.sampled_from(["begin", "report", "gone", "finish", "silent", "heard"]))
    def holder(self, slot: str, what: str) -> None:
        found = self.pool.engine.state.slots.get(slot)
        if found is None or found.claim is None or not found.claim.holder:
            return
        if what in ("report", "gone") and found.activation is None:
            return
        self.pool.say(f"{what} {slot}" + (" 77.1 JobPrio=1" if what == "begin" else ""))

    @rule(seconds=st.sampled_from([0.5, 5, 61, 400]))
    def passing(self, seconds: float) -> None:
        self.pool.say(f"run {seconds} s")

    def teardown(self) -> None:
        """The judge finds nothing: it reads all of the log, and so it need not be asked after each step."""
        if hasattr(self, "pool"):
            found = examine(self.pool.log.read()).violations
            assert not found, "\n".join([f"{found[0].thing}: {found[0].words}", *found[0].story])

    @invariant()
    def one_client_runs_for_the_slots_in_backfill_and_no_job_beside_it(self) -> None:
        if not hasattr(self, "pool"):
            return
        machine = self.pool.engine.state.machines.get("h")
        clients = [key for key, run in self.pool.engine.world._runs.items() if run.client]  # type: ignore[attr-defined]
        known = [] if machine is None or machine.backfill is None else [machine.backfill.key]
        assert clients == known or (not clients and not machine.backfill.pid)  # type: ignore[union-attr]
        for slot in self.pool.engine.state.slots.values():
            holds = slot.state_activity in ("Backfill/Busy", "Backfill/Killing")
            assert not holds or (known and slot.claim is None and slot.activation is None)


TestAnyPoint = AnyPoint.TestCase
TestAnyPoint.settings = settings(
    max_examples=8, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
