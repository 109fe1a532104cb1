"""Compare two logs: where they begin to differ, and how their pools differ at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import zip_longest

from attrs import Factory, define

from ...domain.events import Event, PoolFounded
from ...domain.ports.log import LogError
from ...domain.state.job_ad import STATUS_NUMBERS
from ...domain.state.state import State
from .changes import Change, JobRange, PoolAt, changes
from .replay import Replay, ReplayLog


@define
class Comparison:
    """The result of comparing two logs. Their first ``common`` events are equal."""

    common: int = 0
    first: Event | None = None  #: the first event that differs, in the first log; None: the log ends there
    second: Event | None = None  #: the same in the second log
    fields: list[str] = Factory(list)  #: the fields in which these two events differ
    counts: dict[str, tuple[int, int]] = Factory(dict)  #: by kind: the number of events, where the numbers differ
    differences: list[Change] = Factory(list)
    """The jobs, machines and slots that differ at the ends of pools' own logs; ``before`` is the first log's state."""

    @property
    def equal(self) -> bool:
        """True if the logs contain the same events."""
        return self.first is None and self.second is None


def compare(first: ReplayLog, second: ReplayLog, *, ignore: Collection[str] = ()) -> Comparison:
    """Compare two logs, event by event.

    >>> compare(Log.open("monday.db"), Log.open("tuesday.db"), ignore=("at", "stimulus")).common
    120

    :param ignore: fields of events that may differ, for example ``at``
    :raises LogError: one of the logs was imported and the other one was not
    """
    left, right = Replay(first), Replay(second)
    if left.imported != right.imported:
        raise LogError(
            "an imported log cannot be compared with a pool's own log, because their events have other kinds"
        )
    result, counts = Comparison(), (Counter[str](), Counter[str]())
    for left_pair, right_pair in zip_longest(left, right):
        for side, pair in zip(counts, (left_pair, right_pair), strict=True):
            side.update([] if pair is None else [type(pair[1]).__name__])
        if result.first is None and result.second is None:
            result.fields = _different_fields(left_pair and left_pair[1], right_pair and right_pair[1], ignore)
            if left_pair is None or right_pair is None or result.fields:
                result.first, result.second = left_pair and left_pair[1], right_pair and right_pair[1]
            else:
                result.common += 1
    kinds = sorted({*counts[0], *counts[1]})
    result.counts = {kind: (counts[0][kind], counts[1][kind]) for kind in kinds if counts[0][kind] != counts[1][kind]}
    if not (result.equal or left.imported):
        result.differences = changes(_pool_of(left.state), _pool_of(right.state))
    return result


def _different_fields(first: Event | None, second: Event | None, ignore: Collection[str]) -> list[str]:
    if first is None or second is None:
        return []
    if type(first) is not type(second):
        return ["kind"]
    ignored = {*ignore, "log"} if isinstance(first, PoolFounded) else ignore  # each log has its own id
    names = [name for name in type(first).__struct_fields__ if name not in ignored]
    return [name for name in names if getattr(first, name) != getattr(second, name)]


def _pool_of(state: State) -> PoolAt:
    jobs = (
        JobRange(id, proc, proc, STATUS_NUMBERS[cluster.status_of(proc)], "", cluster.submitter)
        for id, cluster in state.clusters.items()
        for proc in cluster.procs()
    )
    slots = {slot.name: slot.state_activity for slot in state.slots.values()}
    return PoolAt(jobs, (), dict.fromkeys(state.machines, "in the pool"), slots, {})
