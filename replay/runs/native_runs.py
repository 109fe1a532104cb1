"""The one fold from a pool's events to its runs: from a job's activation to the end of its processes.

Why a run was ended stands in the events before that: what a user did to the job, why the slot went towards its end
since it was Busy last, what its claim was marked with and who waited for it, by which command the processes were told
to end; the first of them that is a cause of the table. A run of the local universe has no slot's transitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define, field

from ...domain import events as e
from ...domain.state.job_ad import unquoted
from ..narration.formatting import shortened
from .job_run import COMPLETED, ENDED, EVICTED, RUNNING, JobRun
from .run_end_causes import CAUSES, Cause, best_cause, of_own

_ENDINGS = ("Claimed/Retiring", "Preempting/Vacating", "Preempting/Killing")
_FLAGS = {"preempted": CAUSES["preempt"], "drained": CAUSES["drained"]}
"""What a claim is marked with that is to end, where no transition says why."""

_PLAIN = {"exited": COMPLETED, "": ENDED}
"""The outcomes of exits that are no evictions; none is known of a run of an import whose end no record explains."""


def of_run(event: e.SlotTransitioned) -> bool:
    """Return True if a transition says that the slot's job works, or is to end."""
    return event.target == "Claimed/Busy" or event.target in _ENDINGS


@define
class _Active:
    """A run that has not ended: why it is to end, as far as that was told, by the job and by its slot."""

    event: e.JobActivated
    user: tuple[str, str]  #: the cluster's user and accounting group then
    of_job: list[Cause | None] = field(factory=list)
    of_slot: list[Cause | None] = field(factory=list)
    of_claim: list[Cause | None] = field(factory=list)
    told: list[Cause | None] = field(factory=list)
    said: str = ""


@define
class _NativeRunReader:
    users: dict[int, tuple[str, str]] = field(factory=dict)  #: a cluster's user and accounting group
    active: dict[str, _Active] = field(factory=dict)  #: by the keys of their activations
    last_of: dict[tuple[int, int], str] = field(factory=dict)  #: the last activation of each job
    on: dict[str, str] = field(factory=dict)  #: the last activation on each slot
    preferred: dict[str, str] = field(factory=dict)  #: why each slot was last given to somebody although another had it
    last: int = 0

    def read(self, position: int, event: e.Event) -> JobRun | None:
        self.last = max(self.last, event.at)
        if isinstance(event, e.ClusterSubmitted):
            user = unquoted(event.ad.get("User", "")) or event.submitter
            self.users[event.cluster] = user, unquoted(event.ad.get("AcctGroup", ""))
        elif isinstance(event, e.JobActivated):
            self.active[str(position)] = _Active(event, self.users.get(event.cluster, ("", "")))
            self.on[event.slot] = self.last_of[event.cluster, event.proc] = str(position)
        elif isinstance(event, e.JobExited):
            return self._exited(position, event)
        elif isinstance(event, e.SlotTransitioned):
            self._moved(event)
        elif isinstance(event, e.ClaimFlagged | e.ClaimQueued | e.ClaimWithdrawn):
            self._of_claim(event)
        elif isinstance(event, e.JobsTransitioned):
            self._jobs_moved(event)
        elif isinstance(event, e.JobSignalled):
            if (run := self.active.get(self.last_of.get((event.cluster, event.proc), ""))) is not None:
                run.told.append(of_own(event.cause, event.stimulus))
        elif isinstance(event, e.CycleHeld):
            given = (match for match in event.matches if match.reason)
            self.preferred.update((slot, match.reason) for match in given for slot in (match.slot, *match.preempts))
        return None

    def _moved(self, event: e.SlotTransitioned) -> None:
        run = self.active.get(self.on.get(event.slot, ""))
        if run is None:
            return
        if event.target == "Claimed/Busy":  # whatever was to end it has gone away
            run.of_slot.clear()
            run.of_claim.clear()
        elif event.target in _ENDINGS:
            cause = of_own(event.cause, event.stimulus)
            run.of_slot.append(self._better(event.slot) if cause is CAUSES["preempted"] else cause)

    def _better(self, slot: str) -> Cause:
        """Why the match that waits for a slot is better."""
        return CAUSES.get(self.preferred.get(slot, ""), CAUSES["preempted"])

    def _of_claim(self, event: e.ClaimFlagged | e.ClaimQueued | e.ClaimWithdrawn) -> None:
        run = self.active.get(self.on.get(event.slot, ""))
        if run is None:
            return
        if isinstance(event, e.ClaimFlagged):
            run.of_claim += [_FLAGS[flag] for flag in event.flags if flag in _FLAGS]
        elif isinstance(event, e.ClaimQueued):
            run.of_claim.append(self._better(event.slot))
        elif not run.told:  # else it came too late for the run
            run.of_claim.clear()

    def _jobs_moved(self, event: e.JobsTransitioned) -> None:
        cause = of_own(event.cause, event.stimulus)
        if cause is None:
            return
        for run in self.active.values():
            cluster, proc = run.event.cluster, run.event.proc
            if cluster == event.cluster and any(begin <= proc <= end for begin, end in event.procs):
                run.of_job.append(cause)
                run.said = unquoted(event.changes.get("HoldReason", "") or event.changes.get("RemoveReason", ""))

    def _exited(self, position: int, event: e.JobExited) -> JobRun | None:
        run = self.active.pop(event.key, None)
        if run is None:
            return None
        if event.outcome in _PLAIN:
            return self._run(run, event.ended or event.at, _PLAIN[event.outcome], position, event.stimulus)
        cause = best_cause([*run.of_job, of_own(event.cause, event.stimulus), *run.of_slot, *run.of_claim, *run.told])
        run.said = run.said or unquoted(event.changes.get("HoldReason", ""))
        return self._run(run, event.ended or event.at, EVICTED, position, event.stimulus, cause)

    def _run(
        self, run: _Active, ended: int, outcome: str, position: int, stimulus: str, cause: Cause = CAUSES["unknown"]
    ) -> JobRun:
        event = run.event
        return JobRun(
            f"{event.cluster}.{event.proc}", *run.user, event.slot, event.at, ended, outcome, cause,
            shortened(run.said), position, stimulus,
        )  # fmt: skip

    def left(self) -> Iterator[JobRun]:
        """The runs that have not ended."""
        for run in self.active.values():
            yield self._run(run, self.last, RUNNING, 0, "")


def own_runs(events: Iterable[tuple[int, e.Event]]) -> Iterator[JobRun]:
    """The runs of a pool's own log, in the order of their ends; last those that have not ended when the log does."""
    reader = _NativeRunReader()
    for position, event in events:
        run = reader.read(position, event)
        if run is not None:
            yield run
    yield from reader.left()
