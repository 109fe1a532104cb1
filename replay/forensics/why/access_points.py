"""Which records are of one access point's job, where several access points have a job of its number."""

from __future__ import annotations

from attrs import define

from ....domain import events as e
from ....domain.imported import job_event_log
from ...runs.job_run import JobRun
from ..imported_log import PlaceNames
from .job_history import Job, JobAd
from .record_words import host_of


@define
class AccessPoints:
    """The access points to which jobs of a number were submitted, and the one whose job is asked for: the first."""

    places: PlaceNames
    chains: dict[int, str]  #: the access point of each chain of job event logs
    chosen: str
    slots: set[str]  #: where its job ran

    def has(self, event: e.Event) -> bool:
        """Return True unless an event is of another access point's job."""
        if isinstance(event, e.JobLogged):
            return self._is_chosen(self.chains.get(self.places.chain(event.stimulus), ""))
        if not isinstance(event, e.JobReported):
            return True
        kind = self.places.kind(event.stimulus)
        if kind == "starterlog":
            return event.facts.get("slot", "") in self.slots
        source = event.facts.get("source", "")
        return self._is_chosen(host_of(source) if source else self.places.machine(event.stimulus))

    def has_run(self, run: JobRun) -> bool:
        machines = {self.places.machine(place) for place in (run.stimulus, run.begun, *run.ends)}
        return self.chosen in machines or machines.isdisjoint(self.chains.values())

    def has_ad(self, ad: JobAd) -> bool:
        return self._is_chosen(ad.text("GlobalJobId").partition("#")[0].rpartition("@")[2])

    def _is_chosen(self, name: str) -> bool:
        return name == self.chosen or name not in self.chains.values()


def access_points(told: list[e.LoggedEvent], job: Job, places: PlaceNames) -> AccessPoints | None:
    """Find the access points that have a job of a number; None if there is one at most."""
    submitted = [
        (event.at, host_of(job_event_log.facts(0, event.text).get("host", "")), places.chain(event.stimulus))
        for _, event in told
        if isinstance(event, e.JobLogged) and event.number == 0 and event.proc == job[1]
    ]
    chains = {chain: host for _, host, chain in submitted if host}
    if len(set(chains.values())) < 2:
        return None
    found = AccessPoints(places, chains, min(submitted)[1], set())
    for _, event in told:
        if (
            isinstance(event, e.JobReported)
            and event.proc == job[1]
            and event.said == "shadow_began"
            and found.has(event)
        ):
            found.slots.add(event.facts.get("slot", ""))
    return found
