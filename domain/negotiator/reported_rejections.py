"""The jobs whose logged rejection reason is still valid, so that a cycle need not evaluate every autocluster.

A logged reason stays valid for an autocluster as long as none of these changes: its first job, its reason in the log
(``IdleJobs.unreported``), the slot columns that its jobs read, the remaining slots, and the submitter's limit. An
autocluster for which the cycle searched a slot, or that depends on the time, is evaluated in every cycle.
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
"""The number that identifies the circumstances of all slots, and the limit that stops the submitter."""


class ReportedRejections(Struct):
    """The reported rejections, cached with the state. They never affect a cycle's result."""

    number: int = 0  #: the number of the current circumstances
    _versions: dict[str, int] = field(default_factory=dict)  #: versions of the columns that reported autoclusters read
    _reads: set[tuple[str, ...]] = field(default_factory=set)  #: sets of columns that are completely in ``_versions``
    _slots: tuple[object, ...] = ()
    _reported_reasons: dict[tuple[int, str], tuple[Unmatched, IdleJobs, int]] = field(default_factory=dict)
    """The reasons that the last cycle reported, by the jobs' clusters and names, with the jobs' autoclusters. A reason
    that is in the log is the same object here."""
    _seen: int = -1

    def update_to_state(self, state: Manager, queues: IdleQueues, matchmaker: Matchmaker) -> None:
        """Update to the log, and to the slots that are left after the cycle's matches."""
        changed = state.rejection_changes.since(self._seen)
        self._seen = state.rejection_changes.total
        for job, (reason, queue, autocluster) in [*self._reported_reasons.items()]:
            if state.rejections.get(job[0], {}).get(job[1]) is not reason:
                queue.unreported[autocluster] = None
                del self._reported_reasons[job]
        for job in changed or ():
            if job not in self._reported_reasons:
                queues.reset_reported(job[0])
        self._reported_reasons.clear()
        slots = _slots(state, matchmaker)
        same = all(_version(matchmaker, name) == version for name, version in self._versions.items())
        if changed is None or slots != self._slots or not same:
            self.number += 1
            self._slots = slots
            self._versions.clear()
            self._reads.clear()

    def autoclusters_to_evaluate(self, queue: IdleJobs, limit: str, requested: Iterable[int]) -> Iterable[int] | None:
        """Return the autoclusters of a submitter's jobs that must be evaluated again. Return None for all of them,
        because the first job of an autocluster may be in a cluster whose jobs differ.

        :param requested: the autoclusters for which the cycle searched a slot
        """
        circumstances: Circumstances = (self.number, limit)
        if min(queue.groups) < 0:
            queue.reported_circumstances = None
            return None
        if queue.reported_circumstances != circumstances:
            queue.reported_circumstances = circumstances
            queue.unreported = dict.fromkeys(queue.groups)
        return [
            autocluster
            for autocluster in {**queue.unreported, **dict.fromkeys(requested)}
            if autocluster in queue.groups
        ]

    def note_logged_reason(
        self,
        queue: IdleJobs,
        autocluster: int,
        reads: tuple[str, ...],
        matchmaker: Matchmaker,
        cluster: int,
        new: Unmatched | None,
    ) -> None:
        """Record that the log contains an autocluster's reason, or will contain it after the ``new`` event.

        :param reads: the columns that determine which slots match
        :param cluster: the cluster of the autocluster's first job
        """
        if new is not None:
            self._reported_reasons[cluster, new.job] = new, queue, autocluster
        if reads not in self._reads:
            self._reads.add(reads)
            self._versions |= {name: _version(matchmaker, name) for name in reads if name not in self._versions}
        queue.unreported.pop(autocluster, None)


def _version(matchmaker: Matchmaker, name: str) -> int:
    column = matchmaker.pool.table.columns.get(name)
    return -1 if column is None else column.version


def _slots(state: Manager, matchmaker: Matchmaker) -> tuple[object, ...]:
    """Return a summary of the slots. While it is unchanged, only the slots that match make reasons different."""
    pool, available = matchmaker.pool, matchmaker.free | matchmaker.claimed.mask
    remaining = matchmaker.free.tobytes(), available.tobytes()
    never = b"" if matchmaker.rules.consider_preemption else (pool.claimed & matchmaker.counted).tobytes()
    return (
        state.configured,
        id(pool),
        matchmaker.rules.consider_preemption,
        matchmaker.counted.tobytes(),
        never,
        remaining,
    )
