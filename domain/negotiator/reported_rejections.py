"""For which jobs the log still says why they got nothing, so that a cycle need not look at each kind of them.

That a kind of jobs was told of holds as long as its first job is the same, the log has said nothing else of it
(``IdleJobs.untold``), and the circumstances are: the same columns of the slots that such jobs depend on, the same slots
left, the same limit of the submitter. A kind that the cycle has asked for, or that depends on the time, is looked at in
every cycle.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from ..events import Unmatched
from ..requests.idle_jobs import IdleJobs, IdleQueues
from ..state.state import Manager
from .matchmaker import Matchmaker

# The few words with which HTCondor's negotiator tells a schedd why a job was rejected.


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
"""Those of all slots, numbered, and the limit that is in the submitter's way."""


class ReportedRejections(Struct):
    """Kept with the state. Nothing that a cycle comes to depends on it."""

    number: int = 0  #: of the circumstances
    _versions: dict[str, int] = field(default_factory=dict)  #: the columns that kinds told of depend on, as of these
    _reads: set[tuple[str, ...]] = field(default_factory=set)  #: of which kinds all columns are among these
    _slots: tuple[object, ...] = ()
    _written: dict[tuple[int, str], tuple[Unmatched, IdleJobs, int]] = field(default_factory=dict)
    """What the last cycle gave the log to say, by the jobs' clusters and names, and of which kind: if the log has it,
    it is the same object."""
    _seen: int = -1

    def follow(self, state: Manager, queues: IdleQueues, chooser: Matchmaker) -> None:
        """Take in what the log has said since, and how the slots are when the cycle has given away what it gives."""
        changed = state.rejection_changes.since(self._seen)
        self._seen = state.rejection_changes.total
        for job, (reason, queue, kind) in [*self._written.items()]:
            if state.rejections.get(job[0], {}).get(job[1]) is not reason:
                queue.untold[kind] = None
                del self._written[job]
        for job in changed or ():
            if job not in self._written:
                queues.untell(job[0])
        self._written.clear()
        slots = _slots(state, chooser)
        same = all(_version(chooser, name) == seen for name, seen in self._versions.items())
        if changed is None or slots != self._slots or not same:
            self.number += 1
            self._slots = slots
            self._versions.clear()
            self._reads.clear()

    def to_tell(self, queue: IdleJobs, limit: str, asked: Iterable[int]) -> Iterable[int] | None:
        """The kinds of a submitter's jobs to look at; ``asked`` are those for which a slot was looked for. None: all,
        since the first job of a kind may stand among others that differ."""
        circumstances: Circumstances = (self.number, limit)
        if min(queue.lines) < 0:
            queue.told_as_of = None
            return None
        if queue.told_as_of != circumstances:
            queue.told_as_of = circumstances
            queue.untold = dict.fromkeys(queue.lines)
        return [kind for kind in {**queue.untold, **dict.fromkeys(asked)} if kind in queue.lines]

    def told(
        self,
        queue: IdleJobs,
        kind: int,
        reads: tuple[str, ...],
        chooser: Matchmaker,
        cluster: int,
        new: Unmatched | None,
    ) -> None:
        """The log says why a kind of jobs, the first of them of this cluster, got nothing, or will say so when it has
        what is ``new``; whether slots match depends on these columns."""
        if new is not None:
            self._written[cluster, new.job] = new, queue, kind
        if reads not in self._reads:
            self._reads.add(reads)
            self._versions |= {name: _version(chooser, name) for name in reads if name not in self._versions}
        queue.untold.pop(kind, None)


def _version(chooser: Matchmaker, name: str) -> int:
    column = chooser.pool.table.columns.get(name)
    return -1 if column is None else column.version


def _slots(state: Manager, chooser: Matchmaker) -> tuple[object, ...]:
    """All that is told of slots but which ones match: it is the same wherever this is."""
    pool, left = chooser.pool, chooser.free | chooser.held.mask
    remaining = chooser.free.tobytes(), left.tobytes()
    never = b"" if chooser.rules.consider_preemption else (pool.held & pool.counted).tobytes()
    return state.configured, id(pool), chooser.rules.consider_preemption, pool.counted.tobytes(), never, remaining
