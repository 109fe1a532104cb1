"""Fold a pool's events into its runs: from a job's activation to the end of its processes.

The cause is found in the events before the end: an action of a user on the job, the reason why the slot began to evict
the job after it was last Busy, the flags of its claim, the claims that waited for the slot, and the command that
signalled the processes. The first one that is in the table of causes is used. Runs in the local universe have no slot
transitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define, field

from ...domain import events as e
from ...domain.state.job_ad import unquoted
from ..narration.formatting import shorten_text
from .job_run import COMPLETED, ENDED, EVICTED, RUNNING, JobRun
from .run_end_causes import CAUSES, Cause, best_cause, own_cause

_ENDINGS = ("Claimed/Retiring", "Preempting/Vacating", "Preempting/Killing")
_FLAGS = {"preempted": CAUSES["preempt"], "drained": CAUSES["drained"]}
"""The causes for the flags of an ending claim, used if no transition has a cause."""

_PLAIN = {"exited": COMPLETED, "": ENDED}
"""The outcomes of exits that are not evictions. An imported run has no outcome if no record explains its end."""


@define
class _OpenRun:
    """A run that has not ended, with the possible causes so far from the job, the slot, the claim and signals."""

    event: e.JobActivated
    user: tuple[str, str]  #: the cluster's user and accounting group at the start
    of_job: list[Cause | None] = field(factory=list)
    of_slot: list[Cause | None] = field(factory=list)
    of_claim: list[Cause | None] = field(factory=list)
    signals: list[Cause | None] = field(factory=list)
    reason_text: str = ""


@define
class _NativeRunReader:
    users: dict[int, tuple[str, str]] = field(factory=dict)  #: a cluster's user and accounting group
    active: dict[str, _OpenRun] = field(factory=dict)  #: the active runs, by the keys of their activations
    last_activation: dict[tuple[int, int], str] = field(factory=dict)  #: by job
    run_by_slot: dict[str, str] = field(factory=dict)  #: the last activation on each slot
    preferred: dict[str, str] = field(factory=dict)  #: the reason why each slot was last given to another job
    last: int = 0

    def fold_event(self, position: int, event: e.Event) -> JobRun | None:
        self.last = max(self.last, event.at)
        if isinstance(event, e.ClusterSubmitted):
            user = unquoted(event.ad.get("User", "")) or event.submitter
            self.users[event.cluster] = user, unquoted(event.ad.get("AcctGroup", ""))
        elif isinstance(event, e.JobActivated):
            self.active[str(position)] = _OpenRun(event, self.users.get(event.cluster, ("", "")))
            self.run_by_slot[event.slot] = self.last_activation[event.cluster, event.proc] = str(position)
        elif isinstance(event, e.JobExited):
            return self._fold_exit(position, event)
        elif isinstance(event, e.SlotTransitioned):
            self._fold_transition(event)
        elif isinstance(event, e.ClaimFlagged | e.ClaimQueued | e.ClaimWithdrawn):
            self._of_claim(event)
        elif isinstance(event, e.JobsTransitioned):
            self._jobs_moved(event)
        elif isinstance(event, e.JobSignalled):
            if (run := self.active.get(self.last_activation.get((event.cluster, event.proc), ""))) is not None:
                run.signals.append(own_cause(event.cause, event.stimulus))
        elif isinstance(event, e.CycleHeld):
            matches = (match for match in event.matches if match.reason)
            self.preferred.update((slot, match.reason) for match in matches for slot in (match.slot, *match.preempts))
        return None

    def _fold_transition(self, event: e.SlotTransitioned) -> None:
        run = self.active.get(self.run_by_slot.get(event.slot, ""))
        if run is None:
            return
        if event.target == "Claimed/Busy":  # it is no longer being evicted
            run.of_slot.clear()
            run.of_claim.clear()
        elif event.target in _ENDINGS:
            cause = own_cause(event.cause, event.stimulus)
            run.of_slot.append(self._better_match_cause(event.slot) if cause is CAUSES["preempted"] else cause)

    def _better_match_cause(self, slot: str) -> Cause:
        return CAUSES.get(self.preferred.get(slot, ""), CAUSES["preempted"])

    def _of_claim(self, event: e.ClaimFlagged | e.ClaimQueued | e.ClaimWithdrawn) -> None:
        run = self.active.get(self.run_by_slot.get(event.slot, ""))
        if run is None:
            return
        if isinstance(event, e.ClaimFlagged):
            run.of_claim += [_FLAGS[flag] for flag in event.flags if flag in _FLAGS]
        elif isinstance(event, e.ClaimQueued):
            run.of_claim.append(self._better_match_cause(event.slot))
        elif not run.signals:  # otherwise the processes have already been signalled
            run.of_claim.clear()

    def _jobs_moved(self, event: e.JobsTransitioned) -> None:
        cause = own_cause(event.cause, event.stimulus)
        if cause is None:
            return
        for run in self.active.values():
            cluster, proc = run.event.cluster, run.event.proc
            if cluster == event.cluster and any(begin <= proc <= end for begin, end in event.procs):
                run.of_job.append(cause)
                run.reason_text = unquoted(event.changes.get("HoldReason", "") or event.changes.get("RemoveReason", ""))

    def _fold_exit(self, position: int, event: e.JobExited) -> JobRun | None:
        run = self.active.pop(event.key, None)
        if run is None:
            return None
        if event.outcome in _PLAIN:
            return self._run(run, event.ended or event.at, _PLAIN[event.outcome], position, event.stimulus)
        named_cause = own_cause(event.cause, event.stimulus)
        cause = best_cause([*run.of_job, named_cause, *run.of_slot, *run.of_claim, *run.signals])
        run.reason_text = run.reason_text or unquoted(event.changes.get("HoldReason", ""))
        return self._run(run, event.ended or event.at, EVICTED, position, event.stimulus, cause)

    def _run(
        self, run: _OpenRun, ended: int, outcome: str, position: int, stimulus: str, cause: Cause = CAUSES["unknown"]
    ) -> JobRun:
        event = run.event
        return JobRun(
            f"{event.cluster}.{event.proc}", *run.user, event.slot, event.at, ended, outcome, cause,
            shorten_text(run.reason_text), position, stimulus,
        )  # fmt: skip

    def unfinished_runs(self) -> Iterator[JobRun]:
        """Yield the runs that have not ended."""
        for run in self.active.values():
            yield self._run(run, self.last, RUNNING, 0, "")


def own_runs(events: Iterable[tuple[int, e.Event]]) -> Iterator[JobRun]:
    """Yield the runs in a pool's own log, sorted by end, followed by the runs that have not ended."""
    reader = _NativeRunReader()
    for position, event in events:
        run = reader.fold_event(position, event)
        if run is not None:
            yield run
    yield from reader.unfinished_runs()
