"""Stop the jobs of a server that stops: gracefully, fast, or peacefully (when they have ended)."""

from __future__ import annotations

from typing import Protocol

from ...domain.ports import stimuli as s
from ...domain.startd.shutdown import SHUTDOWN_SPEEDS
from ...domain.state.peers import ACCESS_POINT, EXECUTION_POINT
from ..machine.stop_signals import GRACEFUL, PEACEFUL
from .engine import Engine
from .local_world import LocalWorld
from .startd import ExecutionPoint


class StoppingServer(Protocol):
    """The parts of a server that are needed to stop its jobs."""

    engine: Engine
    world: LocalWorld
    point: ExecutionPoint | None
    stop_speed: str  #: Peaceful, Graceful or Fast; a signal may change it at any time

    def step(self, until: int | None = None) -> None: ...


def is_faster(speed: str, other: str) -> bool:
    return SHUTDOWN_SPEEDS.index(speed) > SHUTDOWN_SPEEDS.index(other)


def stop_jobs(server: StoppingServer, patience: float) -> None:
    """Stop all jobs, by `server.stop_speed`. Graceful: vacate them without retirement time, wait at most `patience`
    seconds, then kill the remaining ones. A further signal can make it faster. A fast access point leaves its jobs to
    their execution points, and reconnects to them when it is back within their leases."""
    if server.stop_speed == PEACEFUL:
        _wait_for_jobs(server)
    server.engine.executing = False
    if server.stop_speed == GRACEFUL:
        _vacate(server, fast=False)
        if _all_end(server, patience):
            return
    elif EXECUTION_POINT not in server.engine.state.roles:
        return
    _vacate(server, fast=True)
    _all_end(server, 5.0)


def _wait_for_jobs(server: StoppingServer) -> None:
    """Start no more jobs, and wait until the running ones have ended, or the server is to stop faster."""
    state, point = server.engine.state, server.point
    machines = state.machines if EXECUTION_POINT in state.roles and point is not None else {}
    name = "" if point is None else point.name
    if name in machines and not machines[name].shutdown:
        server.engine.handle([s.ShutDown(server.engine.id("stop"), "root", name, PEACEFUL)])
    server.engine.executing = bool(machines)
    while (name in machines or state.running_keys) and server.stop_speed == PEACEFUL:
        server.step()


def _all_end(server: StoppingServer, patience: float) -> bool:
    """Wait until all jobs have ended, at most `patience` seconds; return True if they have."""
    state, speed = server.engine.state, server.stop_speed
    until = server.world.now() + round(patience * 1_000_000)
    while state.running_keys and server.world.now() < until and server.stop_speed == speed:
        server.step(until)
    return not state.running_keys


def _vacate(server: StoppingServer, fast: bool) -> None:
    engine = server.engine
    if EXECUTION_POINT in engine.state.roles:
        slots = [slot.name for slot in engine.state.slots.values() if slot.claim is not None]
        engine.handle([s.VacateSlot(engine.id("stop"), "root", name, fast) for name in slots])
    if ACCESS_POINT in engine.state.roles and not fast:  # retiring jobs must also end now: no retirement time is left
        everything = s.Selection(everything=True)
        engine.handle([s.Vacate(engine.id("stop"), "root", everything)])
