"""The defragmentation of a pool: what it saw of the machines at an instant, and which it drained."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen
from msgspec import field

from .base import Event, event


@frozen
class DefragDrain:
    """A machine that was chosen to be drained. Its ``DrainBegan`` has the result."""

    machine: str  #: the machine
    slot: str  #: the partitionable slot that was chosen
    rank: float  #: DEFRAG_RANK of that slot
    badput: int  #: core-seconds that the drain is expected to cost, by the slot's ad
    seconds: int  #: seconds that it is expected to take, by the slot's ad
    evidence: tuple[int, ...]  #: positions of the `EvaluationRecorded` that made it a candidate, and of its rank
    refused: str = ""  #: why its drain could not begin (empty: it did)


@frozen
class DefragCancel:
    """A machine whose drain was canceled."""

    machine: str  #: the machine
    slot: str  #: the slot of which DEFRAG_CANCEL_REQUIREMENTS was true
    evidence: tuple[int, ...]  #: position of the `EvaluationRecorded` of that
    refused: str = ""  #: why it could not be canceled (empty: it was)


@event("defrag.polled")
class DefragPolled(Event, frozen=True):
    """The defragmentation looked at the pool (each DEFRAG_INTERVAL), and decided."""

    stream: ClassVar[str] = "defrag"
    wanted: int  #: how many machines it may drain now, by DEFRAG_DRAINING_MACHINES_PER_HOUR
    draining: int  #: how many machines drain, by the defragmentation
    whole: int  #: how many machines are whole (DEFRAG_WHOLE_MACHINE_EXPR)
    candidates: int  #: how many machines might have been drained (0 too if none was looked for)
    stopped: str  #: what kept it from looking for machines: rate, interval, concurrent, whole, spent (empty: nothing)
    drains: tuple[DefragDrain, ...] = ()  #: the machines that were chosen, the first choice first
    cancels: tuple[DefragCancel, ...] = ()  #: the machines whose drain was canceled
    began_draining: tuple[str, ...] = ()  #: machines that drain and did not at the poll before
    over_draining: tuple[str, ...] = ()  #: machines that drained at the poll before and do not now
    became_whole: tuple[str, ...] = ()  #: machines that are whole and were not at the poll before
    no_longer_whole: tuple[str, ...] = ()  #: machines that were whole at the poll before and are not now
    costs: dict[str, float] = field(
        default_factory=dict
    )  #: AvgDrainingBadput and AvgDrainingUnclaimed: parts of the cores' time
    offset: int = 0  #: the pool's offset from UTC in seconds, for expressions that ask for local times
