"""An execution point that runs the jobs of an external claim holder: the holder activates its claims with a key."""

from __future__ import annotations

from attrs import define

from poolbook.adapters.runtime.log_writer import StimulusResult
from poolbook.adapters.simulation.simulation import RemoteJob, RemoteSchedds
from poolbook.domain.events import ClaimMade, RunReported
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.run_reports import decode_report
from poolbook.replay.virtual_world import Behaviour

from .points import Point


@define
class RemoteHolder(RemoteSchedds):
    """Holders that only send messages: their jobs' processes run at the execution point."""

    def _activate(self, claim_made: ClaimMade, job: RemoteJob) -> None:
        slot, claim = claim_made.slot, claim_made.claim
        self.behaviours[slot] = job.behaviour
        self._ending[slot] = claim
        self.world.plan(claim_made.at, s.ActivateClaim(f"activate-{claim}", slot, job.id, job.ad, key=f"run-{claim}"))

    def _start(self, slot: str) -> None:
        """Do nothing: the execution point starts the processes."""


class RunningPoint(Point):
    """A point whose external claim holders let it run their jobs."""

    def __init__(self, dialect: str = "htcondor-25", *, steady: bool = True) -> None:
        super().__init__(dialect, steady=steady)
        self.elsewhere = RemoteHolder(self.world)

    def _behaviour(self, launch) -> Behaviour:  # type: ignore[no-untyped-def]
        return self.elsewhere.behaviours.get(launch.slot, Behaviour(1000))

    def activate(self, slot: str = "slot1@h", behaviour: Behaviour | None = None, **ad: str) -> StimulusResult:
        self.elsewhere.behaviours[slot] = behaviour or Behaviour(1000)
        ad = {"Owner": '"carol"', "User": '"carol@other"', "JobUniverse": "5", "ImageSize": "500"} | ad
        job, key = f"{self.elsewhere.number()}.0", f"run-{self.elsewhere.number()}"
        return self.handle(s.ActivateClaim(self.id(), slot, job, ad, key=key))

    def reports(self) -> list[s.Stimulus]:
        """Return what was reported to the access point, as stimuli."""
        return [decode_report(event) for event in self.events() if isinstance(event, RunReported)]
