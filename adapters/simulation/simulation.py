"""Combine the parts of a simulation: the engine, its simulated machines, and the reactions to events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from attrs import define, field, frozen

from ...domain import events as e
from ...domain.events import Ad, Event
from ...domain.ports import stimuli as s
from ...domain.ports.log import EventStore
from ...domain.ports.world import Launch
from ...domain.state.job_ad import unquoted
from ...domain.state.records import Slot
from ...domain.state_machines import DEFAULT_DIALECT
from ...domain.state_machines.drain import RESTART
from ...replay.scenario import PlayError, Scenario, ScenarioStep
from ...replay.scenario.transcript import Transcript, TranscriptLine
from ...replay.scenario.watching import PoolHistory, ReadingsChange
from ...replay.virtual_world import Behaviour, VirtualWorld, sleep_behaviour
from ..machine.host import VERSION
from ..runtime.engine import Engine
from ..stores.log_id import new_log_id
from .scenario_machines import DOMAIN, ScenarioMachines, ScenarioSensors


@frozen
class RefusedStep:
    """A scenario line whose request the pool refused."""

    step: ScenarioStep
    why: str


@frozen
class StepWarning:
    """A warning about a scenario line, which is still executed."""

    step: ScenarioStep
    text: str


@frozen
class FailedExpectation:
    """An expectation that was not met, with the actual state, and the story of the slot or job as in `why -verbose`."""

    step: ScenarioStep
    actual: str
    story: tuple[str, ...] = ()


PlayEvent = TranscriptLine | ScenarioStep | RefusedStep | StepWarning | FailedExpectation
"""All kinds of a simulation's reports."""


@define
class Simulation:
    """The simulation of one scenario. ``hear`` is called with each report as it happens."""

    scenario: Scenario
    machines: ScenarioMachines
    log: EventStore
    hear: Callable[[PlayEvent], None]
    dialect: str = ""
    steady: bool = True  #: jump to when a policy rule may become true; False: evaluate every POLLING_INTERVAL (slow)
    transcript: Transcript = field(init=False)
    world: VirtualWorld = field(init=False)
    engine: Engine = field(init=False)
    remote_schedds: RemoteSchedds = field(init=False)
    behaviours: dict[int, Behaviour] = field(factory=dict)  #: cluster -> the behaviour of its jobs
    _warned: set[tuple[int, str]] = field(factory=set)  #: the line numbers and warnings already reported
    sensors: dict[str, ScenarioSensors] = field(factory=dict)  #: machine -> its sensors, if a line has set readings
    readings: list[ReadingsChange] = field(factory=list)
    _restarting: dict[str, bool] = field(factory=dict)  #: machine -> whether it joins again when it has left

    def __attrs_post_init__(self) -> None:
        self.transcript = Transcript(self.scenario)
        self.world = VirtualWorld(self._behave, self.start, self.steady, on_readings=self._record_readings)
        self.engine = Engine(self.log, self.world, zone=self.scenario.calendar.zone)
        self.remote_schedds = RemoteSchedds(self.world)
        self.engine.subscribe(self._take_events)

    @property
    def start(self) -> int:
        """Return the scenario's start, in microseconds since the epoch."""
        return self.scenario.calendar.start

    def _record_readings(self, machine: str) -> None:
        self.readings.append(ReadingsChange(self.world.clock, machine, self.world.sense(machine)))

    def history(self) -> PoolHistory:
        """Return the pool's past, up to the scenario's end."""
        calendar = self.scenario.calendar
        return PoolHistory(self.log, self.readings, calendar.zone, calendar.start + self.scenario.end)

    def create_pool(self) -> None:
        """Create the pool, configure it like its first machine, and add the machines."""
        dialect = self.dialect or self.scenario.dialect or DEFAULT_DIALECT
        self.handle(s.FoundPool("founding", "play", dialect, DOMAIN, VERSION, {}, new_log_id()))
        line = self.scenario.machines[0].line
        refusals = self.handle(self.machines.configure_stimulus(self.engine.id("reconfigure"), line))
        if refusals:
            raise PlayError(refusals, line)
        for machine in self.scenario.machines:
            self.join(machine.name)

    def join(self, name: str) -> None:
        machine = self.machines.machine(name)
        refusals = self.handle(self.machines.join_stimulus(f"machine-{name}-{self.world.now()}", machine))
        if refusals:
            raise PlayError(refusals, machine.line)

    def handle(self, stimulus: s.Stimulus) -> str:
        """Handle a stimulus; return the reason for a refusal, or "" if the pool accepted it."""
        return self.engine.handle([stimulus])[0].refusal

    def warn(self, step: ScenarioStep, text: str) -> None:
        """Report a warning about a line, unless it was reported before."""
        if (step.line, text) not in self._warned:
            self._warned.add((step.line, text))
            self.hear(StepWarning(step, text))

    def machines_of_step(self, step: ScenarioStep) -> list[str]:
        """Return the machine that the line names, or all machines if it names none."""
        return [step.machine] if step.machine else [machine.name for machine in self.scenario.machines]

    def slots(self, step: ScenarioStep) -> list[str]:
        """Return the slots that a line names. Raise PlayError if there are no such slots."""
        known_slots = self.engine.state.slots
        if step.thing in known_slots:
            return [step.thing]
        names = [name for name in known_slots if fnmatchcase(name, step.thing)]
        if not names:
            some_names = ", ".join(list(known_slots)[:8]) or "none"
            time = self.transcript.time(step.at)
            raise PlayError(f"unknown slot {step.thing} at {time}; the slots are {some_names}", step.line)
        return names

    def _behave(self, launch: Launch) -> Behaviour:
        return self.behaviours.get(launch.cluster) or sleep_behaviour(launch)

    def _take_events(self, first_position: int, events: Sequence[Event]) -> None:
        for entry in self.transcript.lines_of_events(first_position, events):
            self.hear(entry)
        self.remote_schedds.plan_reactions(events)
        for event in events:
            self._plan_restart(event)

    def _plan_restart(self, event: Event) -> None:
        """Plan what the startd's process does after a drain or shutdown: leave the pool, and join it again."""
        match event:
            case e.ShutdownBegan():
                self._restarting[event.machine] = event.restart
            case e.DrainTransitioned(target="Stopped"):
                drain = self.engine.state.machines[event.machine].drain
                self._restarting[event.machine] = drain is not None and drain.completion == RESTART
                self.world.plan(event.at, s.RemoveMachine(f"stopped-{event.machine}-{event.at}", event.machine))
            case e.MachineLeft() if self._restarting.pop(event.machine, False):
                machine = self.machines.machine(event.machine)
                self.world.plan(event.at, self.machines.join_stimulus(f"machine-{machine.name}-{event.at}", machine))

    def claimed_slots(self) -> list[Slot]:
        return [slot for slot in self.engine.state.slots.values() if slot.claim is not None]

    def owner(self, job: str) -> str:
        """Return the owner of a job; root for one that is not in the queue."""
        cluster = self.engine.state.clusters.get(int(job.partition(".")[0]))
        return "root" if cluster is None else unquoted(cluster.ad.get("Owner", "root"))


_SUSPENDED = "Claimed/Suspended"


@frozen
class RemoteJob:
    """A job of an external schedd."""

    id: str
    ad: Ad
    behaviour: Behaviour


@define
class RemoteSchedds:
    world: VirtualWorld
    _serial: int = 0
    jobs: dict[str, RemoteJob] = field(factory=dict)  #: claim -> the job that it will run
    behaviours: dict[str, Behaviour] = field(factory=dict)  #: slot -> the behaviour of the next job activated there
    _running: dict[str, str] = field(factory=dict)  #: slot -> the key of its job on the simulated machine
    _ending: dict[str, str] = field(factory=dict)  #: slot -> the claim that ends with its job

    def number(self) -> int:
        self._serial += 1
        return self._serial

    def plan_reactions(self, events: Sequence[e.Event]) -> None:
        """Plan the schedds' reactions to the pool's events."""
        released_slots: dict[str, int] = {}
        for event in events:
            match event:
                case e.ClaimMade() if event.claim in self.jobs:
                    self._activate(event, self.jobs.pop(event.claim))
                case e.ClaimActivated():
                    self._start(event.slot)
                case e.StarterSignalled() if event.slot in self._running:
                    self.world.signal(self._running[event.slot], "hard" if event.how == "hard" else "soft")
                case e.SlotTransitioned() if event.slot in self._running and _SUSPENDED in (event.source, event.target):
                    job = self._running[event.slot]
                    self.world.signal(job, "suspend" if event.target == _SUSPENDED else "continue")
                case e.ClaimDeactivated():
                    self._running.pop(event.slot, None)
                    if self._ending.get(event.slot) == event.claim:
                        released_slots[event.slot] = event.at
                case e.ClaimEnded() if self._ending.get(event.slot) == event.claim:
                    del self._ending[event.slot]
                    released_slots.pop(event.slot, None)
        for slot, at in released_slots.items():
            self.world.plan(at, s.ReleaseClaim(f"release-{self._ending.pop(slot)}", slot))

    def _activate(self, claim_made: e.ClaimMade, job: RemoteJob) -> None:
        self.behaviours[claim_made.slot] = job.behaviour
        self._ending[claim_made.slot] = claim_made.claim
        self.world.plan(claim_made.at, s.ActivateClaim(f"activate-{claim_made.claim}", claim_made.slot, job.id, job.ad))

    def _start(self, slot: str) -> None:
        number = self.number()
        key = self._running[slot] = f"outside-{number}"
        end_stimuli = (s.StarterReported(f"report-{number}", slot), s.StarterGone(f"gone-{number}", slot))
        self.world.occupy(key, slot, self.behaviours.pop(slot, Behaviour()), end_stimuli)
