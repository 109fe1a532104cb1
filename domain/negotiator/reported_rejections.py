"""The jobs whose logged rejection reason is still valid, so that a cycle need not evaluate every kind of jobs.

A logged reason is valid for a kind of jobs as long as none of these changes: the kind's first job, its reason in the
log (``IdleJobs.unreported``), the slot columns that such jobs depend on, the remaining slots, and the submitter's
limit. A kind for which the cycle searched a slot, or which depends on the time, is evaluated in every cycle.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from ..events import Unmatched
    from ..requests.idle_jobs import IdleJobs, IdleQueues
    from ..state.state import Manager
    from .matchmaker import Matchmaker

# The short rejection reasons that HTCondor's negotiator sends to a schedd.


def rejection_reason(refusal: Unmatched) -> str:
    """Return the reason that HTCondor's negotiator would have given to the schedd (``matchmaker.cpp``)."""
    if refusal.reached:
        return f"concurrency limit {', '.join(limit.name for limit in refusal.reached)} reached"
    if refusal.denied is not None and refusal.denied.policy:
        return "PREEMPTION_REQUIREMENTS == False"
    if refusal.denied is not None and refusal.denied.priority:
        return "insufficient priority"
    if refusal.limit == "quota":
        has = f"{refusal.group} has {refusal.used:g} of the {refusal.allowed:g} cores of its quota"
        return f"submitter limit exceeded: {has}"
    return "submitter limit exceeded" if refusal.limit in ("share", "ceiling") else "no match found"


Circumstances = tuple[int, str]
"""The number that stands for the circumstances of all slots, and the limit that stops the submitter."""


class ReportedRejections(Struct):
    """The reported rejections, cached with the state. They never affect a cycle's result."""

    number: int = 0  #: the number of the current circumstances
    _versions: dict[str, int] = field(default_factory=dict)  #: versions of the columns that reported kinds read
    _reads: set[tuple[str, ...]] = field(default_factory=set)  #: sets of columns that are completely in ``_versions``
    _slots: tuple[object, ...] = ()
    _written: dict[tuple[int, str], tuple[Unmatched, IdleJobs, int]] = field(default_factory=dict)
    """The reasons that the last cycle reported, by the jobs' clusters and names, with the kinds of the jobs. A reason
    that is in the log is the same object here."""
    _seen: int = -1

    def follow(self, state: Manager, queues: IdleQueues, chooser: Matchmaker) -> None:
        """Update to the state of the log, and to the slots that are left after the cycle's matches."""
        changed = state.rejection_changes.since(self._seen)
        self._seen = state.rejection_changes.total
        for job, (reason, queue, kind) in [*self._written.items()]:
            if state.rejections.get(job[0], {}).get(job[1]) is not reason:
                queue.unreported[kind] = None
                del self._written[job]
        for job in changed or ():
            if job not in self._written:
                queues.reset_reported(job[0])
        self._written.clear()
        slots = _slots(state, chooser)
        same = all(_version(chooser, name) == version for name, version in self._versions.items())
        if changed is None or slots != self._slots or not same:
            self.number += 1
            self._slots = slots
            self._versions.clear()
            self._reads.clear()

    def to_tell(self, queue: IdleJobs, limit: str, requested: Iterable[int]) -> Iterable[int] | None:
        """Return the kinds of a submitter's jobs to evaluate; ``asked`` are the kinds for which the cycle searched a
        slot. None: all, because the first job of a kind may be in a cluster whose jobs differ."""
        circumstances: Circumstances = (self.number, limit)
        if min(queue.groups) < 0:
            queue.reported_circumstances = None
            return None
        if queue.reported_circumstances != circumstances:
            queue.reported_circumstances = circumstances
            queue.unreported = dict.fromkeys(queue.groups)
        return [kind for kind in {**queue.unreported, **dict.fromkeys(requested)} if kind in queue.groups]

    def note(
        self,
        queue: IdleJobs,
        kind: int,
        reads: tuple[str, ...],
        chooser: Matchmaker,
        cluster: int,
        new: Unmatched | None,
    ) -> None:
        """Record that the log contains the reason for a kind of jobs, the first of which is in this cluster, or will
        contain it after the ``new`` event. The matching slots depend on these columns."""
        if new is not None:
            self._written[cluster, new.job] = new, queue, kind
        if reads not in self._reads:
            self._reads.add(reads)
            self._versions |= {name: _version(chooser, name) for name in reads if name not in self._versions}
        queue.unreported.pop(kind, None)


def _version(chooser: Matchmaker, name: str) -> int:
    column = chooser.pool.table.columns.get(name)
    return -1 if column is None else column.version


def _slots(state: Manager, chooser: Matchmaker) -> tuple[object, ...]:
    """Return a summary of the slots. While it is unchanged, reasons differ only in the slots that match."""
    pool, left = chooser.pool, chooser.free | chooser.claimed.mask
    remaining = chooser.free.tobytes(), left.tobytes()
    never = b"" if chooser.rules.consider_preemption else (pool.claimed & pool.counted).tobytes()
    return state.configured, id(pool), chooser.rules.consider_preemption, pool.counted.tobytes(), never, remaining
