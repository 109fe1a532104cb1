"""The two unchanged programs on a simulated machine: the pool, and its supervisor.

``on(machine)`` temporarily puts the simulated system under their modules. It replaces nothing else of them.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from poolbook.adapters import sockets
from poolbook.adapters.machine.execution import client
from poolbook.adapters.machine.execution.client import SupervisorError
from poolbook.adapters.machine.execution.supervisor import (
    launch,
    process_trees,
    records,
    scratch,
    server,
    supervised_job,
    supervised_jobs,
)
from poolbook.adapters.runtime import local_world
from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.runtime.local_world import LocalWorld
from poolbook.adapters.runtime.log_writer import StimulusResult
from poolbook.adapters.runtime.subscribers import Subscribers
from poolbook.adapters.runtime.userlog import files, writer
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.log import LogError

from .descriptors import Descriptors, OpenFile, Pipe, Poll
from .disk import Folder, Path
from .machine import POOL, SUPERVISOR, Machine
from .storage import Store
from .system import Clock, Opened, Os, Processes, Resources, Selectors, Selects, Signals, Sockets

FOLDER = "/pool.db.d"
HOME = "/home/alice"


@contextmanager
def on(machine: Machine) -> Iterator[Descriptors]:
    """Let the programs' modules run on `machine`. Yield the pool's descriptors."""
    own_descriptors, its = Descriptors(POOL), Descriptors(SUPERVISOR)
    clock, processes = Clock(machine), Processes(machine)
    own_os, supervisor_os = Os(machine, own_descriptors), Os(machine, its)

    def pool_waits(poll: Poll, timeout: float | None) -> None:
        machine.wait(poll.readable, None if timeout is None else machine.monotonic + round(timeout * 1e6))

    def supervisor_waits(poll: Poll, timeout: float | None) -> None:
        machine.supervisor_waits(poll.readable, timeout)

    def wake_by(_: int) -> None: ...

    def pipe2(flags: int) -> tuple[int, int]:
        pipe = machine.at_work().woken = Pipe()
        return its.add(pipe), its.add(pipe)

    supervisor_os.pipe2 = pipe2  # type: ignore[method-assign]
    Path.disk = machine.disk
    selects = Selects(its, supervisor_waits)
    replaced: list[tuple[Any, dict[str, Any]]] = [
        (
            client,
            {
                "os": own_os,
                "claimed_keys": lambda folder: claimed_keys(machine),
                "select": Selects(own_descriptors, pool_waits),
                "socket": Sockets(machine, own_descriptors),
                "time": clock,
            },
        ),
        (sockets, {"os": own_os, "socket": Sockets(machine, own_descriptors)}),
        (client.Supervisor, {"_launch": lambda handle: _launch(machine, str(handle._folder), its)}),
        (local_world, {"time": clock, "selectors": Selectors(machine, own_descriptors)}),
        (files, {"os": own_os, "open": Opened(own_os)}),
        (writer, {"os": own_os}),
        (server, {"os": supervisor_os, "select": selects, "socket": Sockets(machine, its), "signal": Signals(wake_by)}),
        (server, {"fcntl": SimpleNamespace(flock=_lock, LOCK_EX=fcntl.LOCK_EX, LOCK_NB=fcntl.LOCK_NB)}),
        (server, {"processes": processes, "time": clock}),
        (supervised_job, {"os": supervisor_os, "time": clock, "processes": processes}),
        (supervised_jobs, {"os": supervisor_os, "resource": Resources, "processes": processes}),
        (process_trees, {"processes": processes, "time": clock}),
        (launch, {"os": supervisor_os}),
        (records, {"os": supervisor_os, "open": Opened(supervisor_os)}),
        (scratch, {"os": supervisor_os, "open": Opened(supervisor_os)}),
    ]
    undo = [patch.multiple(module, create=True, **names) for module, names in replaced]
    for undo_patch in undo:
        undo_patch.start()
    try:
        yield own_descriptors
    finally:
        machine.kill_supervisor()
        for undo_patch in reversed(undo):
            undo_patch.stop()


def claimed_keys(machine: Machine) -> set[str]:
    """Return the activations that are claimed on a machine, as the pool reads them."""
    table = f"{FOLDER}/claims.table"
    data = bytes(machine.disk.file(table).data) if Path(table).exists() else b""
    return {entry[0] for entry in records.parse_table(data) if entry is not None}


def _lock(number: int, how: int) -> None:
    """Ignore the lock of the supervisor's directory: the machine lets no second supervisor start."""


def _launch(machine: Machine, folder: str, descriptors: Descriptors) -> None:
    machine.step(POOL, "start of a supervisor")
    Path(folder).mkdir(0o700, exist_ok=True)
    descriptors.open[2] = OpenFile("the supervisor's own log", machine.supervisor_log, os.O_APPEND)
    try:
        code = machine.begin_supervisor(lambda: server.main(folder), descriptors)
    except OSError as error:
        raise SupervisorError(f"the supervisor in {folder} ended: {error}") from error
    if code:
        raise SupervisorError(f"the supervisor in {folder} ended with code {code}")


def _path(name: str) -> Any:
    """Return a path of the simulated disk, in place of a real one."""
    return Path(name)


class Pool:
    """A running pool, as of `poolbook serve`, without its socket: requests are passed directly."""

    def __init__(self, machine: Machine, store: Store) -> None:
        self.machine = machine
        self.warned: list[str] = []
        machine.dead.discard(POOL)
        self.log = store.open()
        self.world = LocalWorld(_path(FOLDER), self._warn)
        self.world.owners.add("alice")
        self.engine = Engine(self.log, self.world)
        self.engine.load()
        self.log.raise_epoch("host:/pool", self.engine.now(), "serve")
        self.engine.read_on()
        self._subscribers = Subscribers("memory:", self.log, _path(f"{FOLDER}/userlogs"), self._warn)

    def begin(self, founding: Sequence[s.Stimulus] = ()) -> None:
        if founding and not self.engine.state.name:
            self.engine.handle(founding)
        self._subscribers.catch_up(self.world.now())
        self.engine.subscribe(lambda first, events: self._subscribers.process_events(first, events, self.world.now()))
        self.engine.recover()

    def _warn(self, text: str) -> None:
        self.warned.append(text)

    def ask(self, stimulus: s.Stimulus) -> StimulusResult:
        """Handle a request as the server does, with the input that came before it."""
        stimuli = self.engine.wait(self.world.now())
        return self.engine.handle([*stimuli, stimulus])[-1]

    def work(self, until: int) -> None:
        """Run until this time of the machine's monotonic clock."""
        while self.machine.monotonic < until:
            wall = self.world.now() + until - self.machine.monotonic
            try:
                self.engine.step(wall)
            except LogError as error:
                self._warn(str(error))

    def close(self) -> None:
        self.world.close()


def folders(machine: Machine) -> None:
    """Make the directories that exist before any program starts."""
    machine.disk.root.entries["home"] = Folder({"alice": Folder()})
    machine.disk.root.entries["bin"] = Folder()
