"""Events of defragmentation: its polls, and the machines it chose to drain."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from .base import Event, event


class DefragDrain(Struct, frozen=True):
    """A machine that a poll chose to drain. The machine's ``DrainBegan`` is the result."""

    machine: str  #: the machine
    slot: str  #: the partitionable slot that was chosen
    rank: float  #: the value of DEFRAG_RANK for that slot
    badput: int  #: the expected badput of the drain, in core-seconds, from the slot's ad
    seconds: int  #: the expected duration of the drain, in seconds, from the slot's ad
    evidence: tuple[int, ...]  #: positions of the `EvaluationRecorded` events that made it a candidate, and of its rank
    refused: str = ""  #: why the drain could not start (empty: it started)


class DefragCancel(Struct, frozen=True):
    """A machine whose drain a poll canceled."""

    machine: str  #: the machine
    slot: str  #: the slot for which DEFRAG_CANCEL_REQUIREMENTS was true
    evidence: tuple[int, ...]  #: position of the `EvaluationRecorded` for that evaluation
    refused: str = ""  #: why the drain could not be canceled (empty: it was)


@event("defrag.polled")
class DefragPolled(Event, frozen=True):
    """Defragmentation polled the pool (every DEFRAG_INTERVAL) and decided which machines to drain."""

    stream: ClassVar[str] = "defrag"
    wanted: int  #: the number of machines it may drain now (DEFRAG_DRAINING_MACHINES_PER_HOUR)
    draining: int  #: the number of machines that defragmentation is draining
    whole: int  #: the number of whole machines (DEFRAG_WHOLE_MACHINE_EXPR)
    candidates: int  #: the number of machines that could have been drained (also 0 if it did not search)
    stopped: str  #: why it did not search for machines: rate, interval, concurrent, whole, spent (empty: it searched)
    drains: tuple[DefragDrain, ...] = ()  #: the chosen machines, in order of choice
    cancels: tuple[DefragCancel, ...] = ()  #: the machines whose drains were canceled
    began_draining: tuple[str, ...] = ()  #: machines that are draining, but were not at the previous poll
    over_draining: tuple[str, ...] = ()  #: machines that were draining at the previous poll, but are not now
    became_whole: tuple[str, ...] = ()  #: machines that are whole, but were not at the previous poll
    no_longer_whole: tuple[str, ...] = ()  #: machines that were whole at the previous poll, but are not now
    costs: dict[str, float] = field(
        default_factory=dict
    )  #: AvgDrainingBadput, AvgDrainingUnclaimed (fractions of time)
    offset: int = 0  #: the pool's offset from UTC in seconds, for expressions that use local time
    daemon: str = ""  #: the name in DAEMON_LIST of the daemon whose policy decided (empty: DEFRAG)
