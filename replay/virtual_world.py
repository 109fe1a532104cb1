"""Simulate a world without processes: the clock is set manually, and run times of jobs and sensor readings are given.

The live pool's own code runs in this world. Time stops while the pool makes decisions, and then jumps to the next
event.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from ..domain.names import SlotName
from ..domain.ports.sensor_readings import NOTHING_READ, Readings
from ..domain.ports.stimuli import (
    ActivationEnded,
    ActivationStarted,
    BackfillEnded,
    BackfillRunning,
    BenchmarksDone,
    MailHandled,
    Stimulus,
    Transferred,
)
from ..domain.ports.world import ClientLaunch, How, Launch, Mail, World
from ..domain.state.job_ad import unquoted
from ..domain.units import SECOND

EPOCH = 1_800_000_000 * SECOND  #: default start of a virtual clock: January 2027


class Behaviour(Struct, frozen=True):
    """How a job's processes behave in virtual time.

    >>> Behaviour(seconds=600, code=1)  # run for ten minutes, and fail
    Behaviour(seconds=600, code=1, signal=None, grace=0.0, failure='', lost=False, immortal=False, load=0.0)
    """

    seconds: float = 60.0  #: the run time
    code: int = 0  #: the exit code
    signal: int | None = None  #: the signal that ends them, instead of an exit code
    grace: float | None = 0.0  #: how long they run after a soft signal, in seconds (None: they ignore it)
    failure: str = ""  #: the reason why they cannot be started, or empty if they can
    lost: bool = False  #: they disappear without an exit status
    immortal: bool = False  #: no signal ends them
    load: float = 0.0  #: their contribution to the machine's load average


class Speed(Struct, frozen=True):
    """The result of a machine's benchmarks: MIPS and KFLOPS, and their run time in seconds."""

    mips: int = 20_000
    kflops: int = 1_500_000
    seconds: float = 5.0


_LATE = "the lease of its claim was over before it could be started"
_SOFT_SIGNALS: tuple[How, ...] = ("soft", "hold", "remove")


Behave = Callable[[Launch], Behaviour]
CLIENT = Behaviour(seconds=10 * 366 * 86400.0)
"""The default behaviour of a backfill client, which runs until it receives a signal."""


def sleep_behaviour(launch: Launch) -> Behaviour:
    """Return the behaviour for a job's ad: `sleep N` runs for N seconds, any other job for a minute. The attributes
    VirtualSeconds, VirtualCode and VirtualGrace override this."""
    ad = launch.job_ad
    arguments = unquoted(ad.get("Args") or ad.get("Arguments") or "").split()
    seconds = 60.0
    if ad.get("Cmd", "").rstrip('"').endswith("sleep") and arguments and arguments[0].isdigit():
        seconds = float(arguments[0])
    return Behaviour(
        seconds=float(ad.get("VirtualSeconds", seconds)),
        code=int(ad.get("VirtualCode", 0)),
        grace=float(ad["VirtualGrace"]) if "VirtualGrace" in ad else 0.0,
    )


_CLIENT = ""  #: the key for the load of a machine's backfill client, which replaces a slot's name


class _VirtualRun(Struct):
    behaviour: Behaviour
    slot: str
    left: int
    since: int
    ends: Sequence[Stimulus] = ()  #: the stimuli at its end, if it belongs to another pool
    client: bool = False  #: whether this run is a machine's backfill client
    transfers: bool = False  #: whether its files are transferred
    running: bool = True
    version: int = 0
    killed_by: int | None = None
    hold: tuple[str, int, int] = ("", 0, 0)  #: the reason, code and subcode of the hold, if it exceeded a limit
    deadline: int = 0


@dataclass(eq=False, repr=False)
class VirtualWorld(World):
    """The world of a simulation. ``behave`` returns each job's behaviour. ``simulated``: readings change only through
    ``set_readings`` or when ``wait`` returns stimuli, so they need not be polled in between."""

    behave: Behave = sleep_behaviour
    clock: int = EPOCH
    simulated: bool = True
    speeds: dict[str, Speed] = field(default_factory=dict)  #: machine -> the result of its benchmarks
    clients: dict[str, Behaviour] = field(
        default_factory=dict
    )  #: machine -> the behaviour of its next backfill clients
    _readings: dict[str, Readings] = field(default_factory=dict)
    on_readings: Callable[[str], None] = lambda machine: None  #: called when the readings of a machine have changed
    _changed_machines: set[str] = field(default_factory=set)
    _loads: dict[str, dict[str, float]] = field(default_factory=dict)
    """Machine -> slot -> the load of the slot's job, if it is not 0."""
    _loaded: dict[str, Readings] = field(
        default_factory=dict
    )  #: machine -> its readings, including the load of its jobs
    _runs: dict[str, _VirtualRun] = field(default_factory=dict)
    _agenda: list[tuple[int, int, str, int]] = field(default_factory=list)
    _planned: list[tuple[int, int, Stimulus]] = field(default_factory=list)
    mails: list[Mail] = field(default_factory=list)  #: the mails that a live pool would have sent
    _started: list[Stimulus] = field(default_factory=list)
    _serial: int = 0
    started_keys: set[str] = field(default_factory=set)  #: the keys of all activations ever started
    _waiting_keys: set[str] = field(default_factory=set)  #: only their input files were transferred

    def now(self) -> int:
        return self.clock

    def sense(self, machine: str) -> Readings:
        """Return the readings set for the machine, plus the load of its jobs."""
        loads = self._loads.get(machine)
        if loads is None:  # it never had a load; later, the end of a load is a change
            return self._readings.get(machine, NOTHING_READ)
        known = self._loaded.get(machine)
        if known is None:
            readings = self._readings.get(machine, NOTHING_READ)
            condor_load = {**readings.condor_load, **loads}
            client = condor_load.pop(_CLIENT, 0.0)
            load = readings.load + sum(loads.values())
            known = self._loaded[machine] = replace(readings, load=load, condor_load=condor_load, backfill_load=client)
        return known

    def set_readings(self, machine: str, readings: Readings) -> None:
        """Set the readings of a machine from now on."""
        self._readings[machine] = readings
        self._loaded.pop(machine, None)
        self._changed_machines.add(machine)
        self.on_readings(machine)

    def changed_machines(self) -> set[str]:
        stirred_machines, self._changed_machines = self._changed_machines, set()
        return stirred_machines

    def benchmark(self, slot: str) -> None:
        speed = self.speeds.get(SlotName.parse(slot).machine, Speed())
        benchmark_result = BenchmarksDone(f"benchmarks-{slot}-{self.clock}", slot, speed.mips, speed.kflops)
        self.plan(self.clock + round(speed.seconds * SECOND), benchmark_result)

    def send(self, mail: Mail) -> None:
        """Store the mail in `mails` instead of sending it."""
        self.mails.append(mail)
        self._started.append(MailHandled(f"mail-{mail.key}", mail.key))

    def plan(self, at: int, stimulus: Stimulus) -> None:
        """Schedule a stimulus from outside the pool, other than a job's own end, for the instant `at`."""
        self._serial += 1
        heapq.heappush(self._planned, (at, self._serial, stimulus))

    def start(self, launches: Sequence[Launch | ClientLaunch]) -> None:
        for launch in launches:
            if launch.key in self.started_keys:
                continue
            if isinstance(launch, ClientLaunch):
                self.started_keys.add(launch.key)
                self._start_client(launch)
                continue
            if launch.waits:
                if launch.key not in self._waiting_keys:
                    self._waiting_keys.add(launch.key)
                    self._started.append(self._transfer_stimulus(launch.key, "input"))
                continue
            behaviour = self.behave(launch)  # if it raises an error, it is called again later
            self.started_keys.add(launch.key)
            is_late = 0 < launch.deadline <= self.clock
            if behaviour.failure or is_late:
                reason, code, subcode = (_LATE, 1003, 0) if is_late else (behaviour.failure, 6, 2)
                self._started.append(
                    ActivationEnded(
                        f"end-{launch.key}", launch.key, self.clock, failed=True, hold_reason=reason, hold_code=code,
                        hold_subcode=subcode,
                    )
                )  # fmt: skip
                continue
            has_inputs = launch.key in self._waiting_keys
            transfers = has_inputs or (launch.slot_ad and launch.job_ad.get("ShouldTransferFiles") == '"YES"')
            if transfers and not has_inputs:
                self._started.append(self._transfer_stimulus(launch.key, "input"))
            self._started.append(
                ActivationStarted(
                    f"start-{launch.key}", launch.key, 10_000 + len(self.started_keys), f"dir_{launch.key}", self.clock
                )
            )
            self.occupy(launch.key, launch.slot, behaviour)
            self._runs[launch.key].transfers = bool(transfers)
            if launch.deadline:
                self.renew({launch.key: launch.deadline})

    def renew(self, deadlines: Mapping[str, int]) -> None:
        for key, deadline in deadlines.items():
            run = self._runs.get(key)
            if run is not None and not run.behaviour.immortal:
                run.deadline = deadline
                self._plan(key, run)

    def _transfer_stimulus(self, key: str, direction: str) -> Transferred:
        """Return a completed transfer: in virtual time, transfers are instantaneous."""
        return Transferred(f"transfer-{key}-{direction}", key, direction, self.clock, self.clock)

    def _start_client(self, launch: ClientLaunch) -> None:
        behaviour = self.clients.get(SlotName.parse(launch.slot).machine, CLIENT)
        if behaviour.failure:
            end = BackfillEnded(f"end-{launch.key}", launch.key, self.clock, failure=behaviour.failure)
            self._started.append(end)
            return
        self._started.append(
            BackfillRunning(f"start-{launch.key}", launch.key, 10_000 + len(self.started_keys), self.clock)
        )
        self.occupy(launch.key, launch.slot, behaviour, client=True)

    def end_client(self, machine: str, code: int = 0, signal: int | None = None) -> bool:
        """End the machine's backfill client now. Return False if no client is running."""
        for key, run in self._runs.items():
            if run.client and SlotName.parse(run.slot).machine == machine:
                run.behaviour = replace(run.behaviour, code=code, signal=signal)
                run.since, run.left = self.clock, 0
                self._plan(key, run)
                return True
        return False

    def occupy(
        self, key: str, slot: str, behaviour: Behaviour, end_stimuli: Sequence[Stimulus] = (), client: bool = False
    ) -> None:
        """Run a job on a slot, or its machine's backfill client; ``signal`` takes this key. For a job from another
        pool, ``end_stimuli`` arrive at its end."""
        remaining = round(behaviour.seconds * SECOND)
        run = self._runs[key] = _VirtualRun(behaviour, slot, remaining, self.clock, end_stimuli, client)
        self._set_load(run, behaviour.load)
        self._plan(key, run)

    def _set_load(self, run: _VirtualRun, load: float) -> None:
        if run.behaviour.load:
            machine = SlotName.parse(run.slot).machine
            loads = self._loads.setdefault(machine, {})
            place = _CLIENT if run.client else run.slot
            loads.pop(place, None)
            self._loaded.pop(machine, None)
            self._changed_machines.add(machine)
            if load:
                loads[place] = load
            self.on_readings(machine)

    def _plan(self, key: str, run: _VirtualRun) -> None:
        """Plan the end of a run: a suspended run ends only at its deadline."""
        ends = [run.since + run.left] * run.running + [run.deadline] * (run.deadline > 0)
        self._serial += 1
        run.version = self._serial if ends else 0
        if ends:
            heapq.heappush(self._agenda, (min(ends), self._serial, key, run.version))

    def signal(self, key: str, signal_kind: How) -> None:
        run = self._runs.get(key)
        if run is None:
            if key in self._waiting_keys - self.started_keys and signal_kind in (*_SOFT_SIGNALS, "hard"):
                self.started_keys.add(key)
                self._started.append(ActivationEnded(f"end-{key}", key, self.clock, undelivered=True))
            return
        if signal_kind in (*_SOFT_SIGNALS, "hard") and run.behaviour.immortal:
            return
        if signal_kind == "suspend" and run.running:
            run.left -= self.clock - run.since
            run.running = False
            self._plan(key, run)
            self._set_load(run, 0.0)
        elif signal_kind == "continue" and not run.running:
            self._resume(key, run)
        elif signal_kind == "hard" or (signal_kind in _SOFT_SIGNALS and run.killed_by is None):
            self._kill(key, run, is_hard=signal_kind == "hard")

    def end_over_limit(self, key: str, reason: str, code: int, subcode: int) -> None:
        """Kill a run whose job exceeded a limit of its slot; the job is held for this reason."""
        run = self._runs.get(key)
        if run is not None and not run.hold[1]:
            run.hold = reason, code, subcode
            self.signal(key, "hard")

    def _resume(self, key: str, run: _VirtualRun) -> None:
        run.running, run.since = True, self.clock
        self._set_load(run, run.behaviour.load)
        self._plan(key, run)

    def _kill(self, key: str, run: _VirtualRun, is_hard: bool) -> None:
        if not run.running:  # a suspended process is continued to receive the signal
            self._resume(key, run)
        grace = 0.0 if is_hard else run.behaviour.grace
        if grace is not None:
            run.killed_by = 9 if is_hard else 15
            run.since, run.left = self.clock, round(grace * SECOND)
            self._plan(key, run)

    def wait(self, until: int | None) -> list[Stimulus]:
        """Jump to the next event, but not past `until`, and return all stimuli of that instant."""
        stimuli: list[Stimulus] = []
        if self._started:
            stimuli, self._started = self._started, stimuli
            return stimuli
        next_at = self.next_instant()
        if next_at is None or (until is not None and next_at > until):
            if until is not None:
                self.clock = max(self.clock, until)
            return []
        self.clock = max(self.clock, next_at)
        while self._planned and self._planned[0][0] <= self.clock:
            stimuli.append(heapq.heappop(self._planned)[2])
        while (next_at := self._next_end()) is not None and next_at <= self.clock:
            key = heapq.heappop(self._agenda)[2]
            run = self._runs.pop(key)
            self._set_load(run, 0.0)
            is_expired = 0 < run.deadline <= self.clock and not (run.running and run.since + run.left <= run.deadline)
            if run.transfers and run.killed_by is None and not run.behaviour.lost and not is_expired:
                stimuli.append(self._transfer_stimulus(key, "output"))
            stimuli += run.ends or [self._expiry(key) if is_expired else self._end(key, run)]
        return stimuli

    def next_instant(self) -> int | None:
        """Return the instant of the next job's end or scheduled stimulus, or None."""
        end = self._next_end()
        if not self._planned:
            return end
        planned_at = self._planned[0][0]
        return planned_at if end is None else min(planned_at, end)

    def _next_end(self) -> int | None:
        while self._agenda:
            end_at, _, key, version = self._agenda[0]
            run = self._runs.get(key)
            if run is not None and run.version == version:
                return end_at
            heapq.heappop(self._agenda)
        return None

    def _end(self, key: str, run: _VirtualRun) -> ActivationEnded | BackfillEnded:
        if run.hold[1]:
            return self._hold(key, run.hold)
        done = run.behaviour
        signal = run.killed_by if run.killed_by is not None else done.signal
        kind = BackfillEnded if run.client else ActivationEnded
        return kind(
            f"end-{key}", key, self.clock, code=None if signal is not None else done.code, signal=signal, lost=done.lost
        )

    def _hold(self, key: str, hold: tuple[str, int, int]) -> ActivationEnded:
        reason, code, subcode = hold
        return ActivationEnded(
            f"end-{key}", key, self.clock, signal=9, hold_reason=reason, hold_code=code, hold_subcode=subcode
        )

    def _expiry(self, key: str) -> ActivationEnded:
        return ActivationEnded(f"end-{key}", key, self.clock, signal=9, expired=True)

    def recover(self, launches: Sequence[Launch | ClientLaunch]) -> list[Stimulus]:
        self.start(launches)
        return []
