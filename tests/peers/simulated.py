"""Roles with separate logs, in one process and in virtual time: a network that loses, delays, duplicates and reorders
datagrams, machines that lose power or sleep, disks that fail, and clocks that drift and are set.

Everything follows from a seed. A node's engine, links and log are the live ones; the network, the clocks, the disk and
the processes of jobs are simulated.

There are three kinds of time, all in microseconds. `Network.now` is the true time. A node's ``ticks`` are its machine's
CLOCK_BOOTTIME: they begin at each boot, continue while the machine sleeps, and drift, but no one can set them. Its
world's ``now`` is its wall clock.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any

import msgspec
from attrs import define, field

from poolbook.adapters.fabric.links import Links
from poolbook.adapters.runtime.availability import Availability
from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.stores.memory import MemoryRecorder
from poolbook.adapters.stores.seal import AppendBatch, Row
from poolbook.adapters.stores.stored_log import StoredLog, open_stored_log
from poolbook.domain.events import ClaimEnded, Event, Followed, JobExited, WriterBegan
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.log import Head, LogError, LogUnavailable
from poolbook.domain.ports.world import ClientLaunch, Launch
from poolbook.domain.state.peers import ACCESS_POINT, MANAGER, peer_of_slot, role_of
from poolbook.domain.state.state import State
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import EPOCH, Behave, VirtualWorld, sleep_behaviour

from ..domain.pools import JOB, MACHINE, selection
from ..job_commands import job_command

FIRST_MANAGER = "manager/cm1"


@define(eq=False)
class Network:
    """Carries datagrams between nodes. Times are microseconds since the simulation began."""

    random: Random
    loss: float = 0.0  #: the probability that a datagram is lost
    duplication: float = 0.0
    delay: tuple[int, int] = (200, 2_000)  #: the shortest and the longest, in microseconds
    cut: set[tuple[str, str]] = field(factory=set)  #: sender and receiver
    now: int = 0
    _flying: list[tuple[int, int, str, str, bytes]] = field(factory=list)
    _serial: itertools.count[int] = field(factory=itertools.count)
    arrived: dict[str, list[tuple[str, bytes]]] = field(factory=dict)

    def send(self, sender: str, receiver: str, data: bytes) -> None:
        if (sender, receiver) in self.cut:
            return
        for _ in range(1 + (self.random.random() < self.duplication)):
            if self.random.random() >= self.loss:
                at = self.now + self.random.randint(*self.delay)
                heapq.heappush(self._flying, (at, next(self._serial), sender, receiver, data))

    def next_arrival(self) -> int | None:
        return self._flying[0][0] if self._flying else None

    def deliver(self) -> set[str]:
        """Deliver what has arrived by now, and return its receivers."""
        receivers = set()
        while self._flying and self._flying[0][0] <= self.now:
            _, _, sender, receiver, data = heapq.heappop(self._flying)
            if (sender, receiver) not in self.cut:
                self.arrived.setdefault(receiver, []).append((sender, data))
                receivers.add(receiver)
        return receivers


@define(eq=False)
class NodeCarrier:
    """Carries the datagrams of a node. A standby manager calls the first manager manager/cm1."""

    network: Network
    name: str
    home: str = MANAGER  #: the name in the network of the manager of the node's pool

    def send(self, peer: str, data: bytes) -> None:
        peer = self.home if peer == MANAGER else peer
        self.network.send(self.name, MANAGER if peer == FIRST_MANAGER else peer, data)

    def receive(self) -> list[tuple[str, bytes]]:
        return [(self.own_name_of(sender), data) for sender, data in self.network.arrived.pop(self.name, [])]

    def own_name_of(self, peer: str) -> str:
        is_standby = role_of(self.name) == MANAGER != self.name
        if peer == self.home != MANAGER:
            return MANAGER
        return FIRST_MANAGER if is_standby and peer == MANAGER else peer

    def fileno(self) -> int:
        raise NotImplementedError

    def close(self) -> None: ...


class TwiceRunning(AssertionError):
    """A job ran on two machines at the same time."""


class ExpiredEarly(AssertionError):
    """A lease expired although it was renewed in time."""


class Crash(BaseException):
    """The role's process is killed, or its machine loses power, during an append."""


class Disk(MemoryRecorder):
    """The disk of a log, whose next appends fail as ``fault`` says. ``appended`` has the last position and the true
    time of each append."""

    def __init__(self, network: Network) -> None:
        super().__init__("memory")
        self.network = network
        self.appended: list[tuple[int, int]] = []

    fault = ""
    """full: appends fail; broken: reads fail, too; unsure: an append succeeds, but is reported as failed; before or
    after: the next append crashes the role before or after it is durable."""

    def append(self, old: Head, new: Head, batch: AppendBatch) -> None:
        if self.fault == "before":
            raise Crash
        self._check("full", "broken")
        super().append(old, new, batch)
        self.appended.append((new.position, self.network.now))
        if self.fault == "after":
            raise Crash
        self._check("unsure")

    def read_rows(self, after: int, upto: int, limit: int) -> list[Row]:
        self._check("broken")
        return super().read_rows(after, upto, limit)

    def _check(self, *faults: str) -> None:
        if self.fault in faults:
            raise LogUnavailable(f"the disk is {self.fault}")


class NodeWorld(VirtualWorld):
    """A machine: its processes, and its wall clock, which may be wrong. Processes continue while the role's own process
    is killed, until their deadlines. Their ends are recorded until the role has them in its log."""

    def __init__(
        self, name: str, behave: Behave, ticks: Callable[[], int], running: dict[str, tuple[NodeWorld, str]]
    ) -> None:
        super().__init__(behave)
        self.name, self.ticks, self.running = name, ticks, running
        self.clock = ticks()
        self.offset = EPOCH  #: of the wall clock from the ticks
        self.is_asleep = False
        self._jobs: dict[str, str] = {}
        self._lost: set[str] = set()
        self._ends: dict[str, s.ActivationEnded] = {}
        self._reports: list[s.Stimulus] = []

    def now(self) -> int:
        return self.clock + self.offset

    def boot_time(self) -> int:
        return self.clock

    def start(self, launches: Sequence[Launch | ClientLaunch]) -> None:
        for launch in launches:
            if isinstance(launch, Launch) and launch.key not in self.started_keys and self.clock < launch.deadline:
                job = f"{launch.job_ad['AccessPoint']} {launch.cluster}.{launch.proc}"
                other, key = self.running.get(job, (self, ""))
                if other.has_process(key):
                    raise TwiceRunning(f"{job} starts on {self.name}, but still runs on {other.name}")
                self.running[job], self._jobs[launch.key] = (self, launch.key), job
        super().start(launches)

    def has_process(self, key: str) -> bool:
        """Return True if the process with a key runs, even if its end is not known to the role yet."""
        run = self._runs.get(key)
        if run is None or self.is_asleep:
            return False
        ends = [run.since + run.left] * run.running + [run.deadline] * (run.deadline > 0)
        return not ends or min(ends) > self.ticks()

    def collect(self) -> None:
        """Let the machine's processes run until now."""
        if self.is_asleep:
            return
        while self._started or ((at := super().next_instant()) is not None and at <= self.ticks()):
            for stimulus in super().wait(self.ticks()):
                report = _in_wall_time(stimulus, self.offset)
                if isinstance(report, s.ActivationEnded):
                    self._forget(report.key)
                    self._ends[report.key] = report
                self._reports.append(report)
        self.clock = self.ticks()

    def wait(self, until: int | None) -> list[s.Stimulus]:
        self.collect()
        reports, self._reports = self._reports, []
        return reports

    def next_instant(self) -> int | None:
        return self.clock if self._started or self._reports else super().next_instant()

    def _forget(self, key: str) -> None:
        job = self._jobs.pop(key, None)
        if job is not None and self.running.get(job) == (self, key):
            del self.running[job]

    def lose_power(self) -> None:
        """End all processes without a trace."""
        self.collect()
        self.is_asleep = False
        for key in [*self._jobs]:
            self._forget(key)
            self._lost.add(key)
        self._runs.clear()
        self._planned.clear()
        self._reports.clear()

    def wake(self, slept: int) -> None:
        """Continue the processes after the machine's sleep. Those whose deadline is over are killed."""
        self.is_asleep = False
        for key, run in self._runs.items():
            run.since += slept
            self._plan(key, run)

    def renew(self, deadlines: Mapping[str, int]) -> None:
        for key, deadline in deadlines.items():
            if key in self._runs and deadline < max(self._runs[key].deadline, self.clock):
                raise ExpiredEarly(f"the deadline of run {key} at {self.name} is set to an earlier time")
        super().renew(deadlines)

    def report_again(self, stimuli: Sequence[s.Stimulus]) -> None:
        """Report again what the role's process had not logged when it was killed."""
        self._reports[:0] = [stimulus for stimulus in stimuli if not isinstance(stimulus, s.ActivationEnded)]

    def acknowledge(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._ends.pop(key, None)

    def recover(self, launches: Sequence[Launch | ClientLaunch]) -> list[s.Stimulus]:
        self.collect()
        ends: list[s.Stimulus] = [self._ends[launch.key] for launch in launches if launch.key in self._ends]
        ends += [
            s.ActivationEnded(f"end-{launch.key}", launch.key, self.now(), lost=True)
            for launch in launches
            if launch.key in self._lost
        ]
        self._reports = [report for report in self._reports if report not in ends]
        self.start([launch for launch in launches if launch.key not in self._lost and launch.key not in self._ends])
        return ends


def _in_wall_time(stimulus: s.Stimulus, offset: int) -> s.Stimulus:
    names = [name for name in ("at", "began", "ended") if getattr(stimulus, name, 0)]
    return msgspec.structs.replace(stimulus, **{name: getattr(stimulus, name) + offset for name in names})


@define(eq=False)
class Node:
    """A role with its own log, on its own machine."""

    name: str
    network: Network
    running: dict[str, tuple[NodeWorld, str]]  #: the jobs whose processes run anywhere, each with its machine and key
    behave: Behave = sleep_behaviour
    dialect: str = "htcondor-25"
    settings: dict[str, str] = field(factory=dict)
    drift: int = 0  #: of its machine's clocks, in microseconds per second
    managers: tuple[str, ...] = (MANAGER,)  #: of the pool, and those to which an access point flocks
    domain: str = "example.org"
    is_up: bool = False
    disk: Disk = field(init=False)
    log: StoredLog = field(init=False)
    world: NodeWorld = field(init=False)
    engine: Engine = field(init=False)
    links: Links = field(init=False)
    availability: Availability = field(init=False)
    past_logs: list[StoredLog] = field(factory=list)
    past_disks: list[Disk] = field(factory=list)
    past_worlds: list[NodeWorld] = field(factory=list)  #: the worlds of earlier logs, whose processes may still run
    crashes_with_power: bool = False  #: whether a `Crash` is that of the machine
    shortest_lease: int = 0  #: how long a claim lasts at least after its last renewal, in microseconds
    _booted: int = 0
    _fell_asleep: int = 0
    _starts: int = 0
    _due: int | None = None

    @property
    def state(self) -> State:
        return self.engine.state

    @property
    def is_manager(self) -> bool:
        return role_of(self.name) == MANAGER

    @property
    def label(self) -> str:
        """Return the role's name, different for each of its logs, since each log counts its jobs from 1."""
        name = self.name.partition("/")[2]
        return f"{name}_{len(self.past_logs) + 1}" if self.past_logs else name

    @property
    def events(self) -> list[Event]:
        return [event for _, event in self.log.read()]

    # Clocks

    def ticks(self) -> int:
        """Return CLOCK_BOOTTIME: the time since the machine's boot."""
        elapsed = self.network.now - self._booted
        return SECOND + elapsed + elapsed * self.drift // SECOND

    def _instant(self, ticks: int) -> int:
        """Return the earliest true time at which the ticks are reached."""
        return self._booted - (SECOND - ticks) * SECOND // (SECOND + self.drift)

    def set_clock(self, seconds: int) -> None:
        """Set the wall clock forward or, with negative ``seconds``, back."""
        self.world.collect()
        self.world.offset += seconds * SECOND
        self._due = None

    # The log

    def found(self) -> None:
        """Begin a new log."""
        role, _, name = self.name.partition("/")
        log_id = f"{self.network.random.getrandbits(64):016x}"
        self._use(Disk(self.network))
        settings = self.settings
        if self.is_manager and "HAD_LIST" in settings:
            settings = settings | {"HAD_NAME": name or "cm1"}
        names = name or "pool", self.dialect, self.domain, "0.1"
        founding = s.FoundPool("founding", *names, settings, log_id, (role,))
        self.engine.handle([founding])

    def _use(self, disk: Disk) -> None:
        """Use the log on a disk with a new world, as on a machine that was set up again."""
        offset = EPOCH + self.network.now - self.ticks()
        if self._starts:
            self.past_logs.append(self.log)
            self.past_disks.append(self.disk)
            self.disk.fault = ""  # to audit its log
            self.past_worlds.append(self.world)
            offset = self.world.offset
        self.disk, self.log = disk, open_stored_log(disk, None, False)
        self.world = NodeWorld(self.name, self.behave, self.ticks, self.running)
        self.world.offset = offset
        self._create()

    def _create(self) -> None:
        self._starts += 1
        self.engine = Engine(self.log, self.world)

    def forget_after(self, position: int) -> None:
        """Go back to an old backup of the log."""
        events = self.events[:position]
        self.stop()
        self._use(Disk(self.network))
        self.log.append([event for event in events if not isinstance(event, WriterBegan)])
        self.start()

    # The role's process, and its machine

    def start(self) -> None:
        """Start the role's process, which reads its log."""
        self.disk.fault = ""
        self.log.refresh()
        self.world.collect()
        self._create()
        self.log.raise_epoch(f"{self.name}:{self._starts}", self.engine.now(), "serve")
        self.engine.read_on()
        self.network.arrived.pop(self.name, None)
        carrier = NodeCarrier(self.network, self.name, self.managers[0])
        others = [carrier.own_name_of(manager) for manager in self.managers if manager != self.name]
        self.links = Links(
            MANAGER if self.is_manager else self.name, carrier, self.log, lambda: self.engine.state,
            self.ticks, self.engine.now, self.engine.id, self.engine.renew_deadlines, managers=lambda: others,
        )  # fmt: skip
        self.availability = Availability(
            self.engine, self.ticks, self.links.tell, self.links.other_managers, lambda text: None
        )
        self.links.on_message = self.availability.receive
        self.engine.deadline_of = self.links.deadline_of
        self.engine.subscribe(lambda first, events: self.links.note(events))
        self.engine.subscribe(self._check_leases)
        self.is_up, self._due = True, None
        self.engine.recover()

    def _check_leases(self, first: int, events: Sequence[Event]) -> None:
        """Check that no lease expires early, and that the processes of jobs have ended before their access point gives
        them up."""
        replaced = {event.peer for event in events if isinstance(event, Followed) and event.version == 1}
        for event in events:
            if getattr(event, "cause", "") != "lease_over":
                continue
            if isinstance(event, JobExited):
                job = f"{self.label} {event.cluster}.{event.proc}"
                world, key = self.running.get(job, (None, ""))
                if world is not None and world.has_process(key):
                    raise TwiceRunning(f"{job} is given up, but still runs on {world.name}")
            elif isinstance(event, ClaimEnded) and not self.is_manager:
                is_holder = self.name.startswith(ACCESS_POINT)
                if is_holder and not event.stimulus.startswith("lease"):
                    continue  # its execution point has ended it
                peer = peer_of_slot(event.slot) if is_holder else f"{ACCESS_POINT}/{event.claim.split('#')[1]}"
                link = self.links._links[peer]
                over = (link.answered if is_holder else link.asked) + self.shortest_lease
                if self.ticks() < over and peer not in replaced:
                    early = (over - self.ticks()) / SECOND
                    raise ExpiredEarly(f"the lease of {event.claim} expires {early} s early at {self.name}")

    def stop(self) -> None:
        """Kill the role's process. Its jobs continue."""
        self.is_up = False
        self.world.report_again(self.engine.unlogged)

    def lose_power(self) -> None:
        """Kill the role's process and all jobs of its machine, and boot it again, so that its ticks begin again."""
        self.stop()
        wall = self.world.now() + self.ticks() - self.world.clock
        for world in [*self.past_worlds, self.world]:
            world.lose_power()
        self._booted = self.network.now
        self.world.clock, self.world.offset = self.ticks(), wall - self.ticks()

    def sleep(self) -> None:
        """Suspend the machine: nothing runs, but its clocks continue."""
        for world in [*self.past_worlds, self.world]:
            world.collect()
            world.is_asleep = True
        self._fell_asleep = self.ticks()

    def wake(self) -> None:
        for world in [*self.past_worlds, self.world]:
            world.wake(self.ticks() - self._fell_asleep)
        self.network.arrived.pop(self.name, None)
        self._due = None

    def ask(self, stimulus: s.Stimulus) -> Any:
        self.world.collect()
        self._due = None
        (result,) = self.engine.handle([stimulus])
        assert not result.refusal, result.refusal
        return result.value

    @property
    def is_running(self) -> bool:
        return self.is_up and not self.world.is_asleep

    def due(self) -> int | None:
        """Return when the node has something to do. That changes only if it does something."""
        if not self.is_running:
            return None
        if self._due is None:
            try:
                self._due = self._next_due()
            except LogError:
                self._due = self.network.now + SECOND
        return self._due

    def _next_due(self) -> int:
        wake = self.engine.next_wake()
        instants = [
            self.world.next_instant(),
            None if wake is None else wake - self.engine.now() + self.world.clock,
            self.links.next_due(),
            self.availability.due(),
        ]
        return min(self._instant(at) for at in instants if at is not None)

    def step(self) -> None:
        self._due = None
        try:
            self._step()
        except LogError:
            self._due = self.network.now + SECOND
        except Crash:
            self.stop()
            if self.crashes_with_power:
                self.lose_power()

    def _step(self) -> None:
        """Do what the server does in its steps (``PoolServer.step``)."""
        for turn in range(100):
            if turn and self.network.now < (self.due() or 0):
                return
            self._due = None
            self.world.collect()
            self.engine.handle(self.engine.wait(self.world.now()))
            for stimulus in self.links.receive():
                self.engine.handle([stimulus])
            due = self.availability.due()
            if due is not None and due <= self.ticks():
                self.engine.handle([*self.availability.due_stimuli()])
                self.availability.send()
        raise AssertionError(f"{self.name} does not come to rest")


class SimulatedPool:
    """Managers, access points and execution points. All managers negotiate, unless the settings have a HAD_LIST."""

    def __init__(
        self,
        seed: int = 0,
        access_points: int = 1,
        execution_points: int = 1,
        slots: int = 1,
        dialect: str = "htcondor-25",
        settings: dict[str, str] | None = None,
        behave: Behave = sleep_behaviour,
        machine: dict[str, str] | None = None,
        slot: dict[str, str] | None = None,
        kind: str = "static",
        drifts: Sequence[int] = (0,),
        managers: int = 1,
        startd: dict[str, str] | None = None,
    ) -> None:
        """Create a pool.

        :param drifts: of a machine's clock, in microseconds per second; each machine has one of them
        """
        self.kind, self.startd = kind, startd or {}
        self.machine, self.slot = MACHINE | (machine or {}), slot or {}
        self.random = Random(seed)
        self.network = Network(self.random)
        self.running: dict[str, tuple[NodeWorld, str]] = {}
        names = [MANAGER, *(f"manager/cm{n}" for n in range(2, managers + 1))]
        names += [f"access-point/ap{n}" for n in range(1, access_points + 1)]
        names += [f"execution-point/ep{n}" for n in range(1, execution_points + 1)]
        self.slots = slots
        self.nodes = {
            name: Node(
                name,
                self.network,
                self.running,
                behave,
                dialect,
                settings or {},
                self.random.choice(drifts),
                (*names[:managers],),
            )
            for name in names
        }
        self._ids = itertools.count(1)
        for node in self.nodes.values():
            node.found()
            node.start()
        for n in range(1, execution_points + 1):
            self.add_machine(f"ep{n}", slots)

    @property
    def manager(self) -> Node:
        return self.nodes["manager"]

    @property
    def managers(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_manager]

    def ap(self, number: int = 1) -> Node:
        return self.nodes[f"access-point/ap{number}"]

    def ep(self, number: int = 1) -> Node:
        return self.nodes[f"execution-point/ep{number}"]

    def id(self) -> str:
        return f"request-{next(self._ids)}"

    def place(self, job: str) -> str:
        """Return the name of the machine where a job's process runs now; empty if it does not run."""
        world, key = self.running.get(job, (None, ""))
        return world.name if world is not None and world.has_process(key) else ""

    def add_machine(self, name: str, slots: int) -> None:
        share = {"Cpus": "1", "Memory": "1024", "Disk": "1000000"}
        plans = tuple(s.SlotPlan(f"slot{n}@{name}", "static", share | self.slot) for n in range(1, slots + 1))
        if self.kind == "partitionable":
            whole = {key: str(int(value) * slots) for key, value in share.items()}
            plans = (s.SlotPlan(f"slot1@{name}", self.kind, whole | self.slot),)
        self.nodes[f"execution-point/{name}"].ask(
            s.AddMachine(self.id(), name, self.machine | {"Machine": f'"{name}"'}, plans, self.startd)
        )

    def set_up_again(self, name: str) -> None:
        """Begin a new log for a role, as on a machine that was set up again. Jobs of the earlier log may still run."""
        node = self.nodes[name]
        node.stop()
        node.found()
        node.start()
        if name.startswith("execution"):
            self.add_machine(name.partition("/")[2], self.slots)

    def submit(self, count: int = 1, ap: int = 1, user: str = "alice", **attributes: str) -> None:
        ad = JOB | {"AccessPoint": self.ap(ap).label} | attributes
        self.ap(ap).ask(s.Submit(self.id(), user, 0, ad, count, ()))

    def act(self, action: str, job: str, ap: int = 1) -> None:
        self.ap(ap).ask(job_command(self.id(), "alice", action, selection(job)))

    def cut(self, *groups: Sequence[str], one_way: bool = False) -> None:
        """Cut the network between groups of nodes; ``one_way``: only from the first group to the second."""
        for one, other in itertools.permutations(groups, 2):
            self.network.cut |= {(a, b) for a in one for b in other}
            if one_way:
                return

    def isolate(self, name: str) -> None:
        self.cut([name], [other for other in self.nodes if other != name])

    def heal(self) -> None:
        self.network.cut.clear()

    def advance(self, seconds: float) -> None:
        until = self.network.now + round(seconds * SECOND)
        while True:
            arrival = self.network.next_arrival()
            dues = [due for node in self.nodes.values() if (due := node.due()) is not None]
            now = min([*dues, *([] if arrival is None else [arrival])], default=until)
            self.network.now = max(self.network.now, min(now, until))
            receivers = self.network.deliver()
            for name, node in self.nodes.items():
                due = node.due()
                if node.is_running and (name in receivers or (due is not None and due <= self.network.now)):
                    node.step()
            if now >= until and self.network.now >= until:
                return
