"""Property: the validator finds no violation in any log that execution points write, whatever their owners,
administrators and claim holders do."""

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

    @rule(behaviour=st.sampled_from(["exit h", "exit h 1", "client h immortal", "client h seconds=20", "client h"]))
    def client(self, behaviour: str) -> None:
        self.pool.say(behaviour)

    @rule(settings=st.sampled_from([BACKFILL, BACKFILL.replace("EXEC", "BOINC"), ""]))
    def configure(self, settings: str) -> None:
        if "h" in self.pool.engine.state.machines:
            self.pool.say(f"configure h {settings}")

    @rule(grace=st.sampled_from(["5", "-1"]), prio=st.integers(0, 1), seconds=st.sampled_from([20, 900]))
    def submit(self, grace: str, prio: int, seconds: int) -> None:
        self.pool.say(f"submit alice 1 seconds={seconds} grace={grace} prio={prio}")

    @rule(action=st.sampled_from(["touch h", "load h 0.9", "load h 0", "undrain h", "off h Graceful", "off h Fast"]))
    def owner(self, action: str) -> None:
        if "h" in self.pool.engine.state.machines:
            self.pool.say(action)

    @rule(
        schedule=st.sampled_from(["Graceful", "Quick", "Fast"]),
        completion=COMPLETIONS,
        start=st.sampled_from(["", "start=true"]),
    )
    def drain(self, schedule: str, completion: str, start: str) -> None:
        self.pool.say(f"drain h {schedule} {completion} {start}")

    @rule(slot=SLOTS, verb=st.sampled_from(["freeze", "thaw", "vacate root", "notify", "fail", "withdraw", "give"]))
    def command(self, slot: str, verb: str) -> None:
        self.pool.say(f"{verb} {slot}")

    @rule(slot=SLOTS, lease=st.sampled_from(["", "lease=60"]))
    def claim(self, slot: str, lease: str) -> None:
        self.claims += 1
        self.pool.say(f"claim {slot} c{self.claims} {lease}")

    @rule(slot=SLOTS, verb=st.sampled_from(["begin", "report", "gone", "finish", "silent", "heard"]))
    def holder(self, slot: str, verb: str) -> None:
        slot_state = self.pool.engine.state.slots.get(slot)
        if slot_state is None or slot_state.claim is None or not slot_state.claim.holder:
            return
        if verb in ("report", "gone") and slot_state.activation is None:
            return
        self.pool.say(f"{verb} {slot}" + (" 77.1 JobPrio=1" if verb == "begin" else ""))

    @rule(seconds=st.sampled_from([0.5, 5, 61, 400]))
    def pass_time(self, seconds: float) -> None:
        self.pool.say(f"run {seconds} s")

    def teardown(self) -> None:
        """Check that there is no violation. This reads the whole log, so one check at the end is enough."""
        if hasattr(self, "pool"):
            violations = examine(self.pool.log.read()).violations
            assert not violations, "\n".join([f"{violations[0].thing}: {violations[0].words}", *violations[0].story])

    @invariant()
    def one_client_runs_for_the_slots_in_backfill_without_jobs(self) -> None:
        if not hasattr(self, "pool"):
            return
        machine = self.pool.engine.state.machines.get("h")
        clients = [key for key, run in self.pool.engine.world._runs.items() if run.client]  # type: ignore[attr-defined]
        client_keys = [] if machine is None or machine.backfill is None else [machine.backfill.key]
        assert clients == client_keys or (not clients and not machine.backfill.pid)  # type: ignore[union-attr]
        for slot in self.pool.engine.state.slots.values():
            in_backfill = slot.state_activity in ("Backfill/Busy", "Backfill/Killing")
            assert not in_backfill or (client_keys and slot.claim is None and slot.activation is None)


TestAnyPoint = AnyPoint.TestCase
TestAnyPoint.settings = settings(
    max_examples=8, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
