"""Simulate the schedds outside of the pool and the claims that a scenario lets them make.

A claim that comes with a job (``claim slot1 by bob run=1:00``) is activated as soon as the slot grants it, and released
when the job is over. The job reacts to the slot's signals as its line says.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field, frozen

from ...domain import events as e
from ...domain.events import Ad
from ...domain.ports import stimuli as s
from ...replay.virtual_world import Behaviour, VirtualWorld

_SUSPENDED = "Claimed/Suspended"


@frozen
class RemoteJob:
    """A job of a schedd outside of the pool."""

    id: str
    ad: Ad
    behaviour: Behaviour


@define
class RemoteSchedds:
    world: VirtualWorld
    _serial: int = 0
    _jobs: dict[str, RemoteJob] = field(factory=dict)  #: claim -> the job that comes with it
    _next: dict[str, Behaviour] = field(factory=dict)  #: slot -> the behaviour of the next job activated there
    _running: dict[str, str] = field(factory=dict)  #: slot -> the key of its job in the world
    _ending: dict[str, str] = field(factory=dict)  #: slot -> the claim that ends with its job

    def number(self) -> int:
        """Return a number that no claim or job had before."""
        self._serial += 1
        return self._serial

    def comes(self, claim: str, job: RemoteJob) -> None:
        """Register the job that comes with a claim."""
        self._jobs[claim] = job

    def activates(self, slot: str, behaviour: Behaviour) -> None:
        """Set the behaviour of the next job on the slot."""
        self._next[slot] = behaviour

    def hear(self, events: Sequence[e.Event]) -> None:
        """Take the pool's events, and plan the schedds' reactions."""
        released: dict[str, int] = {}
        for event in events:
            match event:
                case e.ClaimMade() if event.claim in self._jobs:
                    self._activate(event, self._jobs.pop(event.claim))
                case e.ClaimActivated():
                    self._start(event.slot)
                case e.StarterSignalled() if event.slot in self._running:
                    self.world.signal(self._running[event.slot], "hard" if event.how == "hard" else "soft")
                case e.SlotTransitioned() if event.slot in self._running and _SUSPENDED in (event.source, event.target):
                    self.world.signal(
                        self._running[event.slot], "suspend" if event.target == _SUSPENDED else "continue"
                    )
                case e.ClaimDeactivated():
                    self._running.pop(event.slot, None)
                    if self._ending.get(event.slot) == event.claim:
                        released[event.slot] = event.at
                case e.ClaimEnded() if self._ending.get(event.slot) == event.claim:
                    del self._ending[event.slot]
                    released.pop(event.slot, None)
        for slot, at in released.items():
            self.world.plan(at, s.ReleaseClaim(f"release-{self._ending.pop(slot)}", slot))

    def _activate(self, made: e.ClaimMade, job: RemoteJob) -> None:
        self._next[made.slot] = job.behaviour
        self._ending[made.slot] = made.claim
        self.world.plan(made.at, s.ActivateClaim(f"activate-{made.claim}", made.slot, job.id, job.ad))

    def _start(self, slot: str) -> None:
        number = self.number()
        key = self._running[slot] = f"outside-{number}"
        ends = (s.StarterReported(f"report-{number}", slot), s.StarterGone(f"gone-{number}", slot))
        self.world.occupy(key, slot, self._next.pop(slot, Behaviour()), ends)
