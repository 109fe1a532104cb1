"""Roles with separate logs, in one process and in virtual time: a network that loses, delays, duplicates and reorders
datagrams, machines that lose power, and clocks that are set.

Everything follows from a seed. A node's engine, links and log are the live ones; the network, the clock and the
processes of jobs are simulated.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from random import Random

from attrs import define, field

from poolbook.adapters.fabric.links import Links
from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.events import Event, JobExited, WriterBegan
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.log import EventStore
from poolbook.domain.ports.world import ClientLaunch, Launch
from poolbook.domain.state.state import State
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import EPOCH, Behave, VirtualWorld, sleep_behaviour

from ..domain.pools import JOB, MACHINE, selection
from ..job_commands import job_command


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
    network: Network
    name: str

    def send(self, peer: str, data: bytes) -> None:
        self.network.send(self.name, peer, data)

    def receive(self) -> list[tuple[str, bytes]]:
        return self.network.arrived.pop(self.name, [])

    def fileno(self) -> int:
        raise NotImplementedError

    def close(self) -> None: ...


class TwiceRunning(AssertionError):
    """A job ran on two machines at the same time."""


class NodeWorld(VirtualWorld):
    """A machine: its processes, and its clock, which may be wrong. Processes go on while the role's own process is
    killed, until their deadlines."""

    def __init__(self, name: str, behave: Behave, running: dict[str, tuple[NodeWorld, str]]) -> None:
        super().__init__(behave)
        self.name, self.running = name, running
        self.offset = 0
        self._jobs: dict[str, str] = {}
        self._lost: set[str] = set()

    def now(self) -> int:
        return self.clock + self.offset

    def start(self, launches: Sequence[Launch | ClientLaunch]) -> None:
        for launch in launches:
            if isinstance(launch, Launch) and launch.key not in self.started_keys and self.clock < launch.deadline:
                job = f"{launch.job_ad['AccessPoint']} {launch.cluster}.{launch.proc}"
                other, key = self.running.get(job, (self, ""))
                if other.has_process(key, self.clock):
                    raise TwiceRunning(f"{job} starts on {self.name}, but still runs on {other.name}")
                self.running[job], self._jobs[launch.key] = (self, launch.key), job
        super().start(launches)

    def has_process(self, key: str, now: int) -> bool:
        """Return True if the process with a key runs, even if its end is not known to the role yet."""
        run = self._runs.get(key)
        if run is None:
            return False
        ends = [run.since + run.left] * run.running + [run.deadline] * (run.deadline > 0)
        return not ends or min(ends) > now

    def wait(self, until: int | None) -> list[s.Stimulus]:
        stimuli = super().wait(until)
        for stimulus in stimuli:
            if isinstance(stimulus, s.ActivationEnded):
                self._forget(stimulus.key)
        return stimuli

    def _forget(self, key: str) -> None:
        job = self._jobs.pop(key, None)
        if job is not None and self.running.get(job) == (self, key):
            del self.running[job]

    def lose_power(self) -> None:
        """End all processes without a trace."""
        for key in [*self._jobs]:
            self._forget(key)
            self._lost.add(key)
        self._runs.clear()
        self._started.clear()

    def recover(self, launches: Sequence[Launch | ClientLaunch]) -> list[s.Stimulus]:
        ends: list[s.Stimulus] = [
            s.ActivationEnded(f"end-{launch.key}", launch.key, self.now(), lost=True)
            for launch in launches
            if launch.key in self._lost
        ]
        self.start([launch for launch in launches if launch.key not in self._lost])
        return ends


@define(eq=False)
class Node:
    """A role with its own log, on its own machine."""

    name: str
    network: Network
    running: dict[str, tuple[NodeWorld, str]]  #: the jobs whose processes run anywhere, each with its machine and key
    behave: Behave = sleep_behaviour
    log: EventStore = field(factory=lambda: open_log("memory:", create=True))
    is_up: bool = False
    disk_is_full: bool = False  #: every append fails
    world: NodeWorld = field(init=False)
    engine: Engine = field(init=False)
    links: Links = field(init=False)
    _starts: int = 0
    _due: int | None = None

    def __attrs_post_init__(self) -> None:
        self.world = NodeWorld(self.name, self.behave, self.running)

    @property
    def state(self) -> State:
        return self.engine.state

    @property
    def events(self) -> list[Event]:
        return [event for _, event in self.log.read()]

    def found(self, dialect: str, settings: dict[str, str]) -> None:
        role, _, name = self.name.partition("/")
        log_id = f"{self.network.random.getrandbits(64):016x}"
        self._create()
        founding = s.FoundPool("founding", name or "pool", dialect, "example.org", "0.1", settings, log_id, (role,))
        self.engine.handle([founding])

    def _create(self) -> None:
        self._starts += 1
        self.engine = Engine(self.log, self.world)

    def start(self) -> None:
        """Start the role's process, which reads its log."""
        self._create()
        self.world.clock = EPOCH + self.network.now
        self.log.raise_epoch(f"{self.name}:{self._starts}", self.engine.now(), "serve")
        self.engine.read_on()
        self.network.arrived.pop(self.name, None)
        self.links = Links(
            self.name, NodeCarrier(self.network, self.name), self.log, lambda: self.engine.state,
            lambda: EPOCH + self.network.now, self.engine.now, self.engine.id, self.engine.renew_deadlines,
        )  # fmt: skip
        self.engine.deadline_of = self.links.deadline_of
        self.engine.subscribe(lambda first, events: self.links.note(events))
        self.engine.subscribe(self._check_given_up)
        self.is_up, self._due = True, None
        self.engine.recover()

    def _check_given_up(self, first: int, events: Sequence[Event]) -> None:
        """Check that the processes of jobs have ended before their access point gives them up."""
        for event in events:
            if isinstance(event, JobExited) and event.cause == "lease_over":
                job = f"{self.name.partition('/')[2]} {event.cluster}.{event.proc}"
                world, key = self.running.get(job, (None, ""))
                if world is not None and world.has_process(key, EPOCH + self.network.now):
                    raise TwiceRunning(f"{job} is given up, but still runs on {world.name}")

    def stop(self) -> None:
        """Kill the role's process. Its jobs continue."""
        self.is_up = False

    def lose_power(self) -> None:
        """Kill the role's process and all jobs of its machine."""
        self.stop()
        self.world.lose_power()

    def forget_after(self, position: int) -> None:
        """Go back to an old backup of the log."""
        events = self.events[:position]
        self.log = open_log("memory:", create=True)
        self.log.append([event for event in events if not isinstance(event, WriterBegan)])
        self.start()

    def ask(self, stimulus: s.Stimulus) -> object:
        self.world.clock, self._due = EPOCH + self.network.now, None
        (result,) = self.engine.handle([stimulus])
        assert not result.refusal, result.refusal
        return result.value

    def due(self) -> int | None:
        """Return when the node has something to do. That changes only if it does something."""
        if not self.is_up:
            return None
        if self._due is None:
            instants = [self.world.next_instant(), self.engine.next_wake(), self.links.next_due()]
            self._due = min(at for at in instants if at is not None) - EPOCH
        return self._due

    def step(self) -> None:
        self._due = None
        self.world.clock = max(self.world.clock, EPOCH + self.network.now)
        for turn in range(100):
            stimuli: Sequence[s.Stimulus] = [*self.engine.wait(self.world.clock), *self.links.receive()]
            if self.disk_is_full:
                self._due = self.network.now + SECOND
                return
            if turn and not stimuli:
                return
            self.engine.handle(stimuli)
        raise AssertionError(f"{self.name} does not come to rest")


class SimulatedPool:
    """A manager, access points and execution points."""

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
        kind: str = "static",
    ) -> None:
        self.kind = kind
        self.machine = MACHINE | (machine or {})
        self.random = Random(seed)
        self.network = Network(self.random)
        self.running: dict[str, tuple[NodeWorld, str]] = {}
        names = ["manager", *(f"access-point/ap{n}" for n in range(1, access_points + 1))]
        names += [f"execution-point/ep{n}" for n in range(1, execution_points + 1)]
        self.nodes = {name: Node(name, self.network, self.running, behave) for name in names}
        self._ids = itertools.count(1)
        for node in self.nodes.values():
            node.found(dialect, settings or {})
            node.start()
        for n in range(1, execution_points + 1):
            self.add_machine(f"ep{n}", slots)

    @property
    def manager(self) -> Node:
        return self.nodes["manager"]

    def ap(self, number: int = 1) -> Node:
        return self.nodes[f"access-point/ap{number}"]

    def ep(self, number: int = 1) -> Node:
        return self.nodes[f"execution-point/ep{number}"]

    def id(self) -> str:
        return f"request-{next(self._ids)}"

    def place(self, job: str) -> str:
        """Return the name of the machine where a job's process runs now; empty if it does not run."""
        world, key = self.running.get(job, (None, ""))
        return world.name if world is not None and world.has_process(key, EPOCH + self.network.now) else ""

    def add_machine(self, name: str, slots: int) -> None:
        share = {"Cpus": "1", "Memory": "1024", "Disk": "1000000"}
        plans = tuple(s.SlotPlan(f"slot{n}@{name}", "static", share) for n in range(1, slots + 1))
        if self.kind == "partitionable":
            plans = (s.SlotPlan(f"slot1@{name}", self.kind, {key: str(int(share[key]) * slots) for key in share}),)
        self.nodes[f"execution-point/{name}"].ask(
            s.AddMachine(self.id(), name, self.machine | {"Machine": f'"{name}"'}, plans)
        )

    def submit(self, count: int = 1, ap: int = 1, user: str = "alice", **attributes: str) -> None:
        ad = JOB | {"AccessPoint": f"ap{ap}"} | attributes
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
                if node.is_up and (name in receivers or (due is not None and due <= self.network.now)):
                    node.step()
            if now >= until and self.network.now >= until:
                return
