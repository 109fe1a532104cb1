"""Two pools in virtual time: an access point of the first flocks to the second."""

from __future__ import annotations

from typing import Any

from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s

from ..domain.pools import JOB
from .simulated import Node, SimulatedPool

CMB, APB, EPB = "manager/cmb", "access-point/apb", "execution-point/epb"


class TwoPools(SimulatedPool):
    """Pool A with a manager, ap1 and ep1, and pool B with cmb, apb and epb. Each execution point has two slots."""

    def __init__(self, flock_to: str = "cmb", pool_b: dict[str, str] | None = None, **options: Any) -> None:
        settings = {"FLOCK_TO": flock_to, "NEGOTIATOR_INTERVAL": "5", "NEGOTIATOR_CYCLE_DELAY": "2"}
        super().__init__(slots=2, settings=settings | options.pop("settings", {}), **options)
        ap1 = self.ap()
        ap1.managers = ("manager", CMB)
        ap1.stop()
        ap1.start()
        for name in (CMB, APB, EPB):
            node = Node(name, self.network, self.running, ap1.behave, ap1.dialect)
            node.settings = settings | {"FLOCK_TO": ""} | (pool_b or {})
            node.managers, node.domain = (CMB,), "poolb.example"
            self.nodes[name] = node
            node.found()
            node.start()
        self.add_machine("epb", 2)

    def submit_in_b(self, count: int, user: str = "carol", **attributes: str) -> None:
        node = self.nodes[APB]
        node.ask(s.Submit(self.id(), user, 0, JOB | {"AccessPoint": node.label} | attributes, count, ()))

    def slots_of_jobs(self, ap: str = "access-point/ap1") -> dict[str, str]:
        """Return the slot in which each job of an access point ended."""
        ends = (event for event in self.nodes[ap].events if isinstance(event, e.JobExited))
        return {f"{event.cluster}.{event.proc}": event.slot for event in ends}

    def levels(self) -> list[tuple[str, int]]:
        """Return the changes of the flock levels at the first access point."""
        changes = [event for event in self.ap().events if isinstance(event, e.FlockingChanged)]
        return [(event.submitter.partition("@")[0], event.level) for event in changes]
