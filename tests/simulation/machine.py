"""A machine in memory: its clock, processes, descriptors and sockets, driven by one seed.

Two programs run on it unchanged, the pool and its supervisor, each with its own ``os`` (``system.py``). A call of
either is a step. Before any step its program may be killed, or the power may fail. Time passes only while both wait,
and then advances to the next time at which something is due.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from typing import Any

from attrs import define, field

from poolbook.adapters.machine.execution.supervisor.processes import MARK, Process

from .descriptors import Descriptors, Pipe
from .disk import Disk, File
from .strand import Stopped, Strand

SECOND = 1_000_000
POOL, SUPERVISOR = "pool", "supervisor"
_MOST = 20_000  # calls at one time: more are an endless loop
_TICK = 10_000  # microseconds of a clock tick, in which start times of processes are counted


class Killed(Stopped):
    """A killed program has made another call."""


class StuckError(AssertionError):
    """All wait, and nothing will ever happen."""


@define
class Plan:
    """What a job's process does: it runs for some time and exits, or reacts to a soft kill after a while, or never."""

    seconds: float
    code: int = 0
    grace: float | None = 0.0  #: seconds from a soft kill to the exit; None: it ignores the signal
    daemon: float = 0.0  #: seconds that a child runs in a separate session; 0: no child

    @classmethod
    def of(cls, arguments: list[str]) -> Plan:
        seconds, code, grace, daemon = arguments
        return cls(float(seconds), int(code), None if grace == "-" else float(grace), float(daemon))


@define(eq=False)
class Running:
    """A process of the table."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    number: int = 0
    environment: dict[str, str] = field(factory=dict)
    plan: Plan | None = None
    ends_at: int | None = None  #: the time of its exit; None: it does not exit without a signal
    left: int | None = None  #: microseconds of run time that remain, while it is stopped
    stopped: bool = False
    status: int | None = None  #: as wait(2) returns it, of a process that ended and is not reaped
    began: int = 0

    def is_of(self, key: str) -> bool:
        """Return True if it descends from the process of this activation."""
        return self.environment.get(MARK) == key


@define
class Run:
    """A job's own process, for the checks: its activation, start and end, and how it ended."""

    key: str
    pid: int
    began: int
    ended: int | None = None
    status: int | None = None
    boot: int = 0


@define
class Doom:
    """The number of calls of a program after which it is killed or, with ``power``, the machine loses its power."""

    steps: int
    program: str
    power: bool = False


@define(eq=False)
class Supervisor:
    """The running supervisor program: a separate strand, which waits for descriptors and for its time."""

    pid: int
    strand: Strand
    descriptors: Descriptors
    woken: Pipe = field(factory=Pipe)  #: where the end of a child is reported
    children_number: int = 0  #: the number of its next child
    readable: Callable[[], bool] = field(default=lambda: False)
    due: int | None = None

    def wants_turn(self, now: int) -> bool:
        return self.readable() or (self.due is not None and now >= self.due)


@define
class Machine:
    seed: int
    disk: Disk = field(factory=Disk)
    clock: int = 1_800_000_000 * SECOND  #: microseconds since the epoch: the wall clock
    monotonic: int = SECOND
    table: dict[int, Running] = field(factory=dict)
    runs: list[Run] = field(factory=list)
    boots: int = 1
    trace: list[str] | None = None  #: the calls of both programs, in order, if the test needs them
    steps: int = 0
    story: list[str] = field(factory=list)  #: the story, line by line
    chance: random.Random = field(init=False)
    supervisor: Supervisor | None = None
    doom: Doom | None = None
    dead: set[str] = field(factory=set)  #: programs whose calls no longer count
    supervisor_log: File = field(factory=File)  #: the output of supervisors
    supervisor_says: Callable[[bytes], None] = field(default=lambda line: None)  #: checks its reports to the pool
    restless: float = 0.0  #: how likely the supervisor runs before a call of the pool
    resident_kb: int = 500  #: the resident size of each process
    _pids: int = 100
    _moved: int = 0
    _rounds: int = 0  # calls in a row without any time passing

    def __attrs_post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def tell(self, text: str) -> None:
        self.story.append(f"{(self.monotonic - SECOND) / SECOND:10.3f} s  {text}")

    # Steps and their ends

    def step(self, program: str, event: str) -> None:
        """Count one call of a program, which may be its last."""
        if program in self.dead:
            raise Killed(program)
        self.steps += 1
        if self.trace is not None:
            self.trace.append(f"{program}: {event}")
        self._rounds = 0 if self.monotonic > self._moved else self._rounds + 1
        self._moved = self.monotonic
        if self._rounds > _MOST:
            raise StuckError(f"the {program} does not come to rest: {event}")
        self._meet_doom(program, event)
        if program == POOL and self.restless and self.chance.random() < self.restless:
            self._let_supervisor_turn()
        if program in self.dead:
            raise Killed(program)

    def _meet_doom(self, program: str, event: str) -> None:
        doom = self.doom
        if doom is None or (doom.program != program and not doom.power):
            return
        doom.steps -= 1
        if doom.steps >= 0:
            return
        self.doom = None
        if doom.power:
            self.cut_power(f"before the {program}'s {event}")
        else:
            self.tell(f"the {program} is killed before its {event}")
            self.dead.add(program)

    def kill_supervisor(self) -> None:
        if self.supervisor is not None:
            self.tell("the supervisor is killed")
            self.dead.add(SUPERVISOR)
            self._resume(self.supervisor)

    def cut_power(self, when: str) -> None:
        """End everything immediately; the disk retains all of its data, or part of it."""
        self.tell(f"the power is cut {when}")
        self.dead |= {POOL, SUPERVISOR}
        for run in self.runs:
            if run.ended is None:
                run.ended, run.status = self.monotonic, 9
        self.table.clear()
        self.boots += 1
        self.disk.cut_power(self.chance)
        self.disk.full = False

    # The supervisor's turns

    def begin_supervisor(self, program: Callable[[], int], descriptors: Descriptors) -> int:
        """Run the supervisor's program until it serves or ends. Return its exit code, 0 if it serves."""
        if self.supervisor is not None and SUPERVISOR in self.dead:
            self._resume(self.supervisor)  # it has not noticed yet that the power was cut
        if self.supervisor is not None:
            return 0
        self.dead.discard(SUPERVISOR)
        new_supervisor = Supervisor(self.fork(1).pid, Strand(program), descriptors)
        self.supervisor = new_supervisor
        self.tell("a supervisor begins")
        self._resume(new_supervisor)
        if POOL in self.dead:
            raise Killed(POOL)
        return new_supervisor.strand.result or 0

    def at_work(self) -> Supervisor:
        """Return the supervisor that makes the current call."""
        assert self.supervisor is not None
        return self.supervisor

    def _let_supervisor_turn(self) -> bool:
        """Let the supervisor run until it waits, if it has something to do. Return whether it had."""
        supervisor = self.supervisor
        if supervisor is None or not supervisor.wants_turn(self.monotonic):
            return False
        self._resume(supervisor)
        return True

    def _resume(self, supervisor: Supervisor) -> None:
        try:
            supervisor.strand.resume()
        finally:
            if supervisor.strand.over:
                self._end_supervisor(supervisor)

    def _end_supervisor(self, supervisor: Supervisor) -> None:
        """Close its descriptors, and give its children to init, as the system does."""
        self.supervisor = None
        supervisor.descriptors.close_all()
        self.table.pop(supervisor.pid, None)
        for process in list(self.table.values()):
            if process.parent == supervisor.pid:
                process.parent = 1
                if process.status is not None:
                    del self.table[process.pid]

    def supervisor_waits(self, readable: Callable[[], bool], timeout: float | None) -> None:
        """Let others run until something can be read, or until this many seconds are over, while the supervisor
        waits."""
        supervisor = self.at_work()
        supervisor.readable = readable
        supervisor.due = None if timeout is None or timeout < 0 else self.monotonic + round(timeout * SECOND)
        supervisor.strand.pause()
        if SUPERVISOR in self.dead:
            raise Killed(SUPERVISOR)

    # Time

    def wait(self, ready: Callable[[], bool], until: int | None) -> None:
        """Let the other programs run, and time pass, until `ready`, or until this time of the monotonic clock."""
        while not ready():
            turned = self._let_supervisor_turn()
            if POOL in self.dead:
                raise Killed(POOL)
            if turned:
                continue
            due_at = None if self.supervisor is None else self.supervisor.due
            due = [at for at in (until, self._next_end(), due_at) if at is not None]
            if not due:
                raise StuckError("everybody waits, and nothing will happen")
            if until is not None and self.monotonic >= until:
                return
            self.pass_time(max(0, min(due) - self.monotonic))

    def sleep(self, seconds: float) -> None:
        """Let time pass for one sleeping program, while no other runs."""
        self.pass_time(round(seconds * SECOND))

    def pass_time(self, microseconds: int) -> None:
        until = self.monotonic + microseconds
        while (at := self._next_end()) is not None and at <= until:
            self._advance(max(at, self.monotonic))
            self._end_due()
        self._advance(until)

    def _advance(self, until: int) -> None:
        self.clock += until - self.monotonic
        self.monotonic = until

    def _next_end(self) -> int | None:
        return min(
            (
                process.ends_at
                for process in self.table.values()
                if process.ends_at is not None and process.status is None
            ),
            default=None,
        )

    def _end_due(self) -> None:
        for process in sorted(self.table.values(), key=lambda process: process.pid):
            if process.status is None and process.ends_at is not None and process.ends_at <= self.monotonic:
                self._gone(process, (process.plan.code if process.plan else 0) << 8)

    # Processes

    def fork(self, parent: int, **more: Any) -> Running:
        self._pids += 1
        started_tick = self.monotonic // _TICK
        process = Running(self._pids, parent, self._pids, self._pids, started_tick, began=self.monotonic, **more)
        self.table[process.pid] = process
        return process

    def begin(self, parent: int, plan: Plan, environment: dict[str, str], number: int, key: str) -> Running:
        """Start a job's own process, and its daemon if it has one."""
        process = self.fork(parent, number=number, environment=environment, plan=plan)
        process.ends_at = self.monotonic + round(plan.seconds * SECOND)
        self.runs.append(Run(key, process.pid, self.monotonic, boot=self.boots))
        if plan.daemon:
            child = self.fork(process.pid, number=number, environment=environment, plan=Plan(plan.daemon, grace=None))
            child.ends_at = self.monotonic + round(plan.daemon * SECOND)
        return process

    def signal(self, process: Running, number: int) -> None:
        if process.status is not None:
            return
        if number == signal.SIGKILL:
            self._gone(process, number)
        elif number == signal.SIGSTOP and not process.stopped:
            process.stopped = True
            process.left = None if process.ends_at is None else process.ends_at - self.monotonic
            process.ends_at = None
        elif number == signal.SIGCONT and process.stopped:
            process.stopped = False
            process.ends_at = None if process.left is None else self.monotonic + process.left
        elif number == signal.SIGTERM and process.plan is not None and process.plan.grace is not None:
            grace = round(process.plan.grace * SECOND)
            if not grace and not process.stopped:
                self._gone(process, number)
            elif not process.stopped:
                process.ends_at = min(process.ends_at or 1 << 62, self.monotonic + grace)

    def _gone(self, process: Running, status: int) -> None:
        process.status = status
        for run in self.runs:
            if run.pid == process.pid and run.boot == self.boots:
                run.ended, run.status = self.monotonic, status
        for child in list(self.table.values()):
            if child.parent == process.pid:
                child.parent = self._heir()
                if child.parent == 1 and child.status is not None:
                    del self.table[child.pid]
        if self.supervisor is not None and process.parent == self.supervisor.pid:
            self.supervisor.woken.count += 1
        elif process.parent not in self.table:
            self.table.pop(process.pid, None)

    def _heir(self) -> int:
        """Return the subreaper, or init."""
        return 1 if self.supervisor is None else self.supervisor.pid

    def reap(self, pid: int) -> int:
        status = self.table.pop(pid).status
        assert status is not None
        return status

    def ended_children(self, parent: int) -> tuple[list[Running], bool]:
        """Return the children that can be reaped, and whether there is any child."""
        children = [process for process in self.table.values() if process.parent == parent]
        return [child for child in children if child.status is not None], bool(children)

    def shown(self, process: Running) -> Process:
        """Return a process as /proc shows it."""
        return Process(
            process.pid, process.status is not None, process.parent, process.group, process.session, process.started,
            self.monotonic - process.began, 0, 1000, self.resident_kb,
        )  # fmt: skip
