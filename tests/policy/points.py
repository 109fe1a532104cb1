"""Execution points for tests: the live engine with a log in memory, a world in which time and sensors are set by hand,
and a set of policies such as owners write."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from poolbook.adapters.runtime.log_writer import StimulusResult
from poolbook.adapters.simulation.simulation import RemoteJob, RemoteSchedds
from poolbook.domain.decide import Tables
from poolbook.domain.events import ClaimMade, Event, SlotTransitioned
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.sensor_readings import Readings
from poolbook.domain.state.job_ad import quoted
from poolbook.domain.state.records import Slot
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import CLIENT, Behaviour

from ..domain.pools import TestPool

START_OF_NOW = "Start && TARGET.RequestCpus <= MY.Cpus"
"""What a slot requires of a job."""

POLICIES: dict[str, dict[str, str]] = {
    "always": {},
    "desktop": {
        "Start": 'KeyboardIdle > 60 && (LoadAvg - CondorLoadAvg <= 0.3 || (State != "Unclaimed" && State != "Owner"))',
        "IS_OWNER": "Start =?= false",
        "WANT_SUSPEND": "true",
        "WANT_VACATE": "TotalJobRunTime > 20",
        "SUSPEND": "KeyboardIdle < 30 || (CpuBusyTime > 20 && time() - JobStart > 30)",
        "CONTINUE": "KeyboardIdle > 40 && LoadAvg - CondorLoadAvg <= 0.5",
        "CpuBusy": "LoadAvg - CondorLoadAvg > 0.5",
        "PREEMPT": 'Activity == "Suspended" && time() - EnteredCurrentActivity > 60',
        "KILL": "time() - EnteredCurrentActivity > 20",
        "MachineMaxVacateTime": "30",
    },
    "hours": {
        "Start": "(ClockMin < 480 || ClockMin >= 1020) || ClockDay == 0",
        "IS_OWNER": "Start =?= false",
        "PREEMPT": "Start =?= false",
        "MaxJobRetirementTime": "90",
        "WANT_VACATE": "false",
    },
    "retiring": {
        "PREEMPT": "Wanted =?= true",
        "WANT_SUSPEND": "Pause =?= true",
        "SUSPEND": "Pause =?= true",
        "CONTINUE": "Pause =!= true",
        "MaxJobRetirementTime": "100",
        "MachineMaxVacateTime": "20",
        "CLAIM_WORKLIFE": "70",
        "KILL": "Wanted =?= true && time() - EnteredCurrentState > 15",
    },
    "tests only": {
        "Start": 'TARGET.Owner == "alice" || KeyboardIdle > 30',
        "WANT_SUSPEND": "TARGET.ImageSize < 1000",
        "SUSPEND": "KeyboardIdle < 20",
        "CONTINUE": "KeyboardIdle >= 20",
        "PREEMPT": "TotalJobRunTime > 120",
        "PREEMPT_VANILLA": "TotalJobRunTime > 45 && TARGET.Long =!= true",
        "WANT_HOLD": "TotalJobRunTime > 80",
        "WANT_HOLD_REASON": 'strcat("ran for ", TotalJobRunTime)',
        "RUNBENCHMARKS": "time() - LastBenchmark > 300",
        "MachineMaxVacateTime": "10",
    },
    "neighbours": {
        "Start": "slot1_Activity =!= \"Busy\" || SlotID == 1",
        "IS_OWNER": "SlotID == 2 && slot1_State =?= \"Claimed\"",
        "PREEMPT": "SlotID == 2 && slot1_Activity =?= \"Busy\" && slot1_EnteredCurrentActivity + 40 < time()",
        "WANT_SUSPEND": "slot1_KeyboardIdle < 3000",
        "SUSPEND": "SlotID == 2 && slot1_KeyboardIdle < 25",
        "CONTINUE": "slot1_KeyboardIdle > 50 || slot2_CpuBusyTime > 20",
        "CpuBusy": "LoadAvg > 0.5",
        "MaxJobRetirementTime": "30",
    },
    "loaded": {
        "Start": "LoadAvg < 0.9",
        "IS_OWNER": "LoadAvg >= 0.9 && TotalJobRunTime is undefined",
        "PREEMPT": "LoadAvg - CondorLoadAvg > 0.4 && TotalJobRunTime > 10",
        "RUNBENCHMARKS": "Mips is undefined || time() - LastBenchmark > 200",
        "MaxJobRetirementTime": "25",
    },
}  # fmt: skip
"""Policies by name: the expressions in each slot's ad."""

SETTINGS = {
    "POLLING_INTERVAL": "5",
    "UPDATE_INTERVAL": "20",
    "MATCH_TIMEOUT": "60",
    "KILLING_TIMEOUT": "10",
    "ALIVE_INTERVAL": "20",
    "MAX_CLAIM_ALIVES_MISSED": "3",
    "MAX_DRAINING_ACTIVATION_DELAY": "7",
    "STARTD_SLOT_ATTRS": "",
}
ELSEWHERE = "other.example.org"


class Point(TestPool):
    """A pool whose execution points receive readings of owners, commands of administrators, and claims from outside."""

    def __init__(self, dialect: str, *, steady: bool = True, tables: Tables | None = None) -> None:
        super().__init__(dialect=dialect, tables=tables, behave=self._behaviour, steady=steady)
        self.behaviours: dict[int, Behaviour] = {}
        self.elsewhere = RemoteSchedds(self.world)
        self.engine.subscribe(lambda first, events: self.elsewhere.plan_reactions(events))

    def _behaviour(self, launch) -> Behaviour:  # type: ignore[no-untyped-def]
        return self.behaviours.get(launch.cluster, Behaviour(60))

    # Machines and slots

    def point(
        self, policy: dict[str, str], *, name: str = "h", slots: int = 1, kind: str = "static", **settings: str
    ) -> StimulusResult:
        """Add a machine with this many cores: each a slot, or all one partitionable slot."""
        shares = [("1", "1024")] * slots if kind == "static" else [(str(slots), str(1024 * slots))]
        plans = tuple(
            s.SlotPlan(
                f"slot{number}@{name}",
                kind,
                {"SlotID": str(number), "Cpus": cpus, "TotalSlotCpus": cpus, "Memory": memory, "Disk": "100000"},
            )
            for number, (cpus, memory) in enumerate(shares, 1)
        )
        ad = {"Arch": '"X86_64"', "Start": "true", "Requirements": START_OF_NOW, "Machine": quoted(name)} | policy
        return self.handle(s.AddMachine(self.id(), name, ad, plans, SETTINGS | settings))

    def slot(self, name: str = "slot1@h") -> Slot:
        slot = self.state.slots[name]
        assert isinstance(slot, Slot)
        return slot

    def pair(self, name: str = "slot1@h") -> str:
        return self.slot(name).state_activity

    def moves(self, slot: str = "slot1@h") -> list[tuple[str, str, str]]:
        """Return the slot's transitions: row, target, cause."""
        return [(e.row, e.target, e.cause) for e in self.events() if isinstance(e, SlotTransitioned) and e.slot == slot]

    def rows(self, slot: str = "slot1@h") -> list[str]:
        return [row for row, _, _ in self.moves(slot)]

    def after(self, position: int) -> list[Event]:
        return [event for _, event in self.log.read(position)]

    # Events

    def job(self, user: str = "alice", count: int = 1, behaviour: Behaviour | None = None, **ad: str) -> StimulusResult:
        """Submit jobs that do the same."""
        self.behaviours[self.state.next_cluster] = behaviour or Behaviour(1000)
        return self.submit(count, user, Owner=quoted(user), JobUniverse="5", ImageSize="500", **ad)

    def read(self, machine: str = "h", **value: object) -> None:
        """Set the readings of the machine's sensors from now on."""
        self.world.set_readings(machine, replace(self._said(machine), **value))

    def _said(self, machine: str) -> Readings:
        return self.world._readings.get(machine, Readings())

    def touch(self, machine: str = "h") -> None:
        self.read(machine, last_input=self.world.clock, last_console=self.world.clock)

    def say(self, machine: str = "h", **attributes: str) -> None:
        """Publish these attributes from the owner's own sensors."""
        self.read(machine, attributes={**self._said(machine).attributes, **attributes})

    def drain(self, schedule: str = "Graceful", machine: str = "h", **more: str) -> StimulusResult:
        return self.handle(s.Drain(self.id(), "root", machine, schedule, **more))

    def undrain(self, machine: str = "h") -> StimulusResult:
        return self.handle(s.CancelDrain(self.id(), "root", machine))

    def off(self, how: str, machine: str = "h") -> StimulusResult:
        return self.handle(s.ShutDown(self.id(), "root", machine, how))

    def pause(self, slot: str = "slot1@h") -> StimulusResult:
        return self.handle(s.SuspendClaim(self.id(), "root", slot))

    def unpause(self, slot: str = "slot1@h") -> StimulusResult:
        return self.handle(s.ContinueClaim(self.id(), "root", slot))

    def reconfigure(self, policy: dict[str, str], machine: str = "h", **settings: str) -> StimulusResult:
        """Add these settings to the machine's configuration, which end up in its slots' ads."""
        of_machine = self.state.machines[machine]
        slots = [slot for slot in of_machine.slots.values() if not slot.parent]
        plans = tuple(s.SlotPlan(slot.name, slot.kind, {**slot.ad, **policy}) for slot in slots)
        return self.handle(s.Reconfigure(self.id(), machine, {**of_machine.settings, **settings}, {}, plans))

    def client(
        self, machine: str = "h", *, seconds: str = "", load: str = "0", immortal: str = "", failure: str = ""
    ) -> None:
        """Set the behaviour of the machine's next backfill clients."""
        lasts = float(seconds) if seconds else CLIENT.seconds
        self.world.clients[machine] = Behaviour(lasts, immortal=bool(immortal), failure=failure, load=float(load))

    # Holders of claims outside of the pool

    def claim(
        self, slot: str = "slot1@h", behaviour: Behaviour | None = None, *, lease: int = 0, **ad: str
    ) -> StimulusResult:
        """Claim a slot for an outside holder; with a behaviour, the claim is activated immediately and released when
        the job is over."""
        number = self.elsewhere.number()
        claim_ad = {"Owner": '"carol"', "User": '"carol@other"', "RequestCpus": "1", "JobUniverse": "5"} | ad
        name = f"{ELSEWHERE}#{number}"
        if behaviour is not None:
            self.elsewhere.jobs[name] = RemoteJob(f"{number}.0", claim_ad, behaviour)
        return self.handle(
            s.RequestClaim(self.id(), slot, name, ELSEWHERE, "carol@other", f"{number}.0", claim_ad, lease)
        )

    def activate(self, slot: str = "slot1@h", behaviour: Behaviour | None = None, **ad: str) -> StimulusResult:
        self.elsewhere.behaviours[slot] = behaviour or Behaviour(1000)
        claim_ad = {"Owner": '"carol"', "User": '"carol@other"', "JobUniverse": "5", "ImageSize": "500"} | ad
        return self.handle(s.ActivateClaim(self.id(), slot, f"{self.elsewhere.number()}.0", claim_ad))

    def tell(self, kind: type[s.SlotMessage], slot: str = "slot1@h", **more: object) -> StimulusResult:
        """Send a message from a claim's holder to its slot."""
        return self.handle(kind(self.id(), slot, **more))

    def silence(self, slot: str = "slot1@h") -> StimulusResult:
        """Stop the holder's keepalives."""
        return self.handle(s.HolderSilent(self.id(), slot, self.world.clock))


def claims(events: Sequence[Event]) -> list[ClaimMade]:
    return [event for event in events if isinstance(event, ClaimMade)]


def at(point: Point, second: float) -> None:
    """Let time pass up to this many seconds after the world's start."""
    point.advance((second * SECOND - (point.world.clock - BEGIN)) / SECOND)


BEGIN = 1_800_000_000 * SECOND
