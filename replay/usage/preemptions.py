"""Find the beneficiaries of evictions, whether they used the freed resources, and the lost work.

A match of a claimed slot names the job that it is for, and so does a waiting claim; a drain and a request name the
user. If no event names a job, as in an import, the beneficiary is the next run of another job on the slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from attrs import define, evolve, field, frozen

from ...domain import events as e
from ...domain.names import JobId, SlotName
from ...domain.ports.log import EventStore
from ...domain.units import SECOND
from ..narration.formatting import EVER, iso
from ..runs.job_run import JobRun
from ..runs.native_runs import own_runs
from ..runs.of_log import pool_events
from ..runs.run_end_causes import CAUSES

_JOB_PREEMPTIONS: Final = frozenset({"priority", "rank", "preempted"})
"""The causes of evictions that give the slot to another job."""
USED, PARTLY, UNUSED, OPEN, NONE = "used", "used by another job", "not used", "not yet", ""
"""How the freed resources were used: by the job for which they were freed, by another job of the same user, by neither,
or not yet at the end of the log; NONE if they were not freed for a job."""


@frozen
class Preemption:
    """An eviction. ``whom`` is the job, or other cause, for which the run was evicted, and ``user`` is the
    job's user. ``began`` is when the freed resources were used (microseconds; 0: never), and ``lasted`` is for how
    long, up to the end of the log. ``weight`` is the slot's number of cores, in thousandths."""

    run: JobRun
    beneficiary_job: str
    user: str = ""
    used: str = NONE
    began: int = 0
    lasted: int = 0
    weight: int = 1000

    @property
    def lost(self) -> int:
        """The time used by the evicted run, in core-microseconds."""
        return self.run.duration * self.weight // 1000

    @property
    def in_vain(self) -> bool:
        return self.used == UNUSED


class _Beneficiary(NamedTuple):
    """The job for which a slot was freed, and the job's user. ``slot`` is the slot that took the resources, if it is
    another one."""

    job: str
    user: str
    slot: str = ""


@define
class _Slot:
    beneficiary: _Beneficiary | None = None
    gone: bool = False  #: whether the beneficiary no longer waits
    weight: int = 1000
    open: list[int] = field(factory=list)  #: the numbers of the evictions whose slot has not been used yet


@define
class _PreemptionReader:
    evictions: list[Preemption] = field(factory=list)
    slots: dict[str, _Slot] = field(factory=dict)
    drains: dict[str, str] = field(factory=dict)  #: a machine -> the user who requested its drain
    given: dict[str, list[str]] = field(factory=dict)  #: a matched slot -> the slots that it preempts
    begun: dict[str, tuple[str, int]] = field(factory=dict)  #: a slot -> its job, and when that began
    draining: dict[str, list[int]] = field(factory=dict)  #: a slot -> its evictions by an unfinished drain
    users: dict[int, str] = field(factory=dict)
    vacate_requests: dict[str, str] = field(factory=dict)  #: a stimulus -> the user who requested it
    removers: dict[tuple[int, int], str] = field(factory=dict)  #: a job -> the user who ended its processes
    running: dict[str, tuple[list[int], str]] = field(
        factory=dict
    )  #: a slot -> the evictions that freed it for its job
    last: int = 0

    def fold_event(self, position: int, event: e.Event, evicted: dict[int, JobRun]) -> None:
        self.last = max(self.last, event.at)
        match event:
            case e.ClusterSubmitted():
                self.users[event.cluster] = event.submitter
            case e.CycleHeld():
                for match in event.matches:
                    if match.preempts:
                        self.given[match.slot] = list(match.preempts)
                    for slot in match.preempts:
                        self._note_beneficiary(slot, _Beneficiary(match.job, self._user(match.job), match.slot))
                    if match.reason and not match.preempts:
                        self._note_beneficiary(match.slot, _Beneficiary(match.job, self._user(match.job)))
            case e.ClaimQueued():
                self._note_beneficiary(event.slot, _Beneficiary(event.job, event.submitter))
            case e.ClaimMade():
                self._slot(event.slot).weight = event.weight
                self._note_carved(event)
            case e.ClaimWithdrawn() | e.MatchVoided():
                for slot in (event.slot, *self.given.pop(event.slot, ())):
                    self._forget_beneficiary(slot)
            case e.DrainBegan():
                self.drains[event.machine] = self.vacate_requests.get(event.stimulus, "")
            case e.DrainTransitioned():
                for slot in [slot for slot in self.draining if SlotName.parse(slot).machine == event.machine]:
                    self._end_drain(slot, UNUSED, 0)
            case e.SlotTransitioned() if event.target == "Drained/Idle":
                self._end_drain(event.slot, USED, event.at)
            case e.JobSignalled():
                remover = self.vacate_requests.get(event.stimulus, "")
                self.removers.setdefault((event.cluster, event.proc), remover)
            case e.JobActivated():
                self._begin_job(event)
            case e.JobExited():
                self._end_job(position, event, evicted)

    def _slot(self, name: str) -> _Slot:
        return self.slots.setdefault(name, _Slot())

    def _note_beneficiary(self, name: str, match: _Beneficiary) -> None:
        slot = self._slot(name)
        slot.beneficiary, slot.gone = match, False

    def _note_carved(self, event: e.ClaimMade) -> None:
        """Update the beneficiary if a matched partitionable slot created this dynamic slot from preempted slots'
        resources."""
        parent_name = str(SlotName.parse(event.slot).parent)
        match = _Beneficiary(event.job, self._user(event.job), event.slot)
        slots = self.given.get(parent_name, [])
        if slots and self._slot(slots[0]).beneficiary == match._replace(slot=parent_name):
            self.given[event.slot] = self.given.pop(parent_name)
            for slot in slots:
                self._note_beneficiary(slot, match)

    def _user(self, job: str) -> str:
        number = job.partition(".")[0]
        return self.users.get(int(number), "") if number.isdecimal() else ""

    def _forget_beneficiary(self, name: str) -> None:
        slot = self._slot(name)
        for number in slot.open:
            self.evictions[number] = evolve(self.evictions[number], used=UNUSED)
        slot.gone, slot.open = True, []

    def _begin_job(self, event: e.JobActivated) -> None:
        slot, job = self._slot(event.slot), f"{event.cluster}.{event.proc}"
        self.removers.pop((event.cluster, event.proc), None)
        self.begun[event.slot] = job, event.at
        for number in slot.open:
            eviction = self.evictions[number]
            user = self.users.get(event.cluster, "")
            if not eviction.beneficiary_job and job != eviction.run.job:
                eviction = evolve(eviction, beneficiary_job=job, user=user)
            is_same_user = bool(eviction.beneficiary_job) and eviction.user == user
            usage = USED if eviction.beneficiary_job == job else PARTLY if is_same_user else UNUSED
            self.evictions[number] = evolve(eviction, used=usage, began=0 if usage == UNUSED else event.at)
            if usage != UNUSED:
                self._note_use(event.slot, job, number)
        self.given.pop(event.slot, None)
        slot.beneficiary, slot.gone, slot.open = None, False, []

    def _note_use(self, slot: str, job: str, number: int) -> None:
        self.running.setdefault(slot, ([], job))[0].append(number)

    def _end_job(self, position: int, event: e.JobExited, evicted: dict[int, JobRun]) -> None:
        emptied_slots, job = self.running.pop(event.slot, ([], ""))
        self.begun.pop(event.slot, None)
        for number in emptied_slots if job == f"{event.cluster}.{event.proc}" else ():
            eviction = self.evictions[number]
            self.evictions[number] = evolve(eviction, lasted=max(0, (event.ended or event.at) - eviction.began))
        run = evicted.get(position)
        if run is not None:
            self._add_eviction(run)

    def _add_eviction(self, run: JobRun) -> None:
        slot, number = self._slot(run.slot), len(self.evictions)
        if run.cause.name in _JOB_PREEMPTIONS:
            match = slot.beneficiary or _Beneficiary("", "")
            job, begin_time = self.begun.get(match.slot, ("", 0))
            usage = UNUSED if slot.gone else USED if job and job == match.job else OPEN
            self.evictions.append(Preemption(run, match.job, match.user, usage, weight=slot.weight))
            if usage == USED:  # it had the resources while the evicted job was still ending
                self.evictions[number] = evolve(self.evictions[number], began=begin_time)
                self._note_use(match.slot, job, number)
            elif usage == OPEN:
                self._slot(match.slot or run.slot).open.append(number)
            return
        whom = self.removers.get(JobId.parse(run.job), "") or BENEFICIARIES.get(run.cause.name, "")
        usage = NONE
        if run.cause is CAUSES["drained"]:
            drain_user = self.drains.get(run.machine, "")
            whom, usage = (f"the drain of {run.machine}{f', which {drain_user} asked for' if drain_user else ''}", OPEN)
            name = SlotName.parse(run.slot)
            self.draining.setdefault(str(name.parent) if name.dynamic else run.slot, []).append(number)
        self.evictions.append(Preemption(run, whom, "", usage, weight=slot.weight))

    def _end_drain(self, slot: str, usage: str, at: int) -> None:
        for number in self.draining.pop(slot, []):
            self.evictions[number] = evolve(self.evictions[number], used=usage, began=at)

    def finish(self) -> list[Preemption]:
        for number in (number for numbers, _ in self.running.values() for number in numbers):
            eviction = self.evictions[number]
            self.evictions[number] = evolve(eviction, lasted=max(0, self.last - eviction.began))
        return self.evictions


BENEFICIARIES: Final = {
    "owner": "the machine's owner", "preempt": "the machine's policy (PREEMPT)", "shutdown": "the machine's shutdown",
    "policy": "its own policy", "stopped": "the pool's stop", "drained": "a drain",
}  # fmt: skip
"""For each cause of an eviction that was not for a job: for whom or what the run was evicted."""


def preemptions(log: EventStore, since: int = 0, until: int = EVER) -> list[Preemption]:
    """Return the evictions between two instants, sorted by end."""
    events = list(pool_events(log))
    evicted_runs = {run.position: run for run in own_runs(events) if run.is_eviction_by_pool}
    reader = _PreemptionReader()
    reader.vacate_requests = {event.stimulus: event.user for _, event in events if isinstance(event, e.RequestAnswered)}
    for position, event in events:
        reader.fold_event(position, event, evicted_runs)
    return [eviction for eviction in reader.finish() if since <= eviction.run.ended < until]


class EvictionTotals(NamedTuple):
    """Totals of evictions: the number, the lost core-microseconds, and both for evictions whose resources were not
    used."""

    evictions: int
    lost: int
    unused: int
    in_vain: int


def totals(evictions: Sequence[Preemption]) -> EvictionTotals:
    losses = [eviction.lost for eviction in evictions]
    vain = [eviction.lost for eviction in evictions if eviction.in_vain]
    return EvictionTotals(len(evictions), sum(losses), len(vain), sum(vain))


def as_dict(eviction: Preemption) -> dict[str, object]:
    """Return an eviction as a dict for JSON, with instants in ISO 8601 (UTC) and times in seconds."""
    run = eviction.run
    return {
        "at": iso(run.ended), "job": run.job, "user": run.user, "slot": run.slot, "cause": run.cause.name,
        "for": eviction.beneficiary_job, "for_user": eviction.user, "used": eviction.used,
        "used_at": iso(eviction.began) if eviction.began else None, "used_for": eviction.lasted / SECOND,
        "lost": run.duration / SECOND, "lost_core_seconds": eviction.lost / SECOND, "position": run.position,
    }  # fmt: skip
