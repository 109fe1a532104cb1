"""What every event says, and the causes that it may name. The rules of this package stand in its ``__init__``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import frozen

Ad = dict[str, str]
"""Attribute -> expression text."""
Procs = tuple[tuple[int, int], ...]
"""Ascending, disjoint ranges of process numbers, both ends included."""

CAUSES: dict[str, str] = {
    # the pool and its machines
    "founded": "the log was begun",
    "writer": "another process took over the writing of the log",
    "configured": "the machine was configured so",
    "reconfigured": "the machine's configuration was read again",
    "evaluated": "an expression of the owner's policy was asked",
    "published": "the machine told the pool what had changed",
    "left": "the machine was taken out of the pool",
    "answered": "the request had been dealt with",
    # slots
    "not_owner": "IS_OWNER is not true, so the machine's owner lets jobs run",
    "is_owner": "IS_OWNER is true: the machine's owner needs it",
    "start_false": "START is false whatever the job",
    "run_benchmarks": "RUNBENCHMARKS is true",
    "first_benchmarks": "the machine has never run benchmarks, and RUNBENCHMARKS is not set to false",
    "benchmarks_done": "the benchmarks are done",
    "carved": "a match took a part of the partitionable slot",
    "merged": "its resources went back to the partitionable slot",
    "matched": "the negotiator found that slot and job accept each other",
    "claimed": "the access point claimed the slot that it had been given",
    "match_timeout": "nobody claimed the slot within MATCH_TIMEOUT",
    "match_void": "the job that the slot was matched with no longer waits",
    "activated": "the claim's holder started a job on it",
    "local": "the access point started it itself: it is of the local universe",
    "job_ended": "the job's processes are gone",
    "no_more_jobs": "no waiting job of the claim's holder fits the slot",
    "worklife": "the claim is older than CLAIM_WORKLIFE",
    "vacate_command": "somebody asked for the slot or job to be vacated",
    "retirement_over": "the job's retirement time is over",
    "suspend": "WANT_SUSPEND and SUSPEND are true",
    "continue": "CONTINUE is true",
    "preempt": "PREEMPT is true",
    "kill": "KILL is true",
    "better_match": "a better match waits for the slot",
    "retired_before": "the job was told to retire before, and that is for good",
    "better_match_gone": "the job retired for a better match or a drain alone, and that has gone away",
    "better_match_refused": "START is false for the job of the better match that waited",
    "better_match_taken": "the better match that waited takes over",
    "claim_failed": "the claiming failed",
    "released": "the claim's holder gave it up",
    "deactivated": "the claim's holder ended its job",
    "unheard": "the claim's holder is silent: its lease runs out",
    "heard": "the claim's holder was heard again",
    "lease_over": "the claim's holder has not been heard of for the length of the claim's lease",
    "drain_command": "somebody asked for the machine to be drained",
    "draining": "the machine drains",
    "drained": "every slot of the machine has been drained",
    "drain_over": "the machine no longer drains",
    "shutdown": "the execution point is shut down",
    "vacate_timeout": "the job did not end within MachineMaxVacateTime",
    "claim_over": "the claim ended and nobody was waiting to take it",
    "machine_left": "its machine was taken out of the pool",
    # jobs
    "submitted": "a user submitted it",
    "user_hold": "somebody asked for it to be held",
    "user_release": "somebody asked for it to be released",
    "user_remove": "somebody asked for it to be removed",
    "user_edit": "somebody changed its attributes",
    "user_vacate": "somebody asked for it to be vacated",
    "kill_timeout": "it did not end in the time that it was given",
    "evicted": "it was ended before it was done",
    "exited": "it ended by itself",
    "execution_failed": "it could not be started",
    "limit_exceeded": "it used more than it was given",
    "lost": "its process vanished without a record, as when the machine loses power",
    "held_by_machine": "WANT_HOLD is true: the machine's owner has such jobs held",
    "measured": "its use of resources was measured",
    "negotiated": "a negotiation cycle was held",
    "accounted": "the priorities were brought up to date",
    "granted": "an administrator set it",
    "suspend_command": "somebody asked for it to be suspended",
    "continue_command": "somebody asked for it to go on",
    "left_queue": "nothing of it ran any more, and its LeaveJobInQueue was not true",
    # what was read of a real pool
    "reported": "a record of HTCondor's own says so",
    "read": "the import read so far",
    "refused": "the import could not read it",
}
"""Every cause that an event may name, with its words."""


@frozen
class Event:
    """What every event says: when, why, and what made the pool decide."""

    at: int  #: when, in microseconds since the epoch (UTC)
    cause: str  #: why: one of `CAUSES`
    stimulus: str  #: the id of what came in and made the pool decide; of an import: where the record stands, "3:1201"

    @property
    def stream(self) -> str:
        raise TypeError(f"{type(self).__name__} is no kind of event: it belongs to no stream")


@frozen
class MachineEvent(Event):
    """Of one machine."""

    machine: str  #: the machine's name

    @property
    def stream(self) -> str:
        return f"machine/{self.machine}"


@frozen
class SlotEvent(Event):
    """Of one slot."""

    slot: str  #: the slot's name, as slot1@host

    @property
    def stream(self) -> str:
        return f"slot/{self.slot}"


@frozen
class ClusterEvent(Event):
    """Of jobs of one cluster."""

    cluster: int  #: the cluster's number

    @property
    def stream(self) -> str:
        return f"cluster/{self.cluster}"


TOPICS: dict[str, type[Event]] = {}
"""The short name under which a log keeps each kind of event; a name once released is never given to another kind."""
IMPORTED: set[type[Event]] = set()
"""The kinds that only an import writes; no pool's own log has any."""
Kind = TypeVar("Kind", bound=type[Event])


def event(topic: str, imported: bool = False) -> Callable[[Kind], Kind]:
    """Declare a kind of event, which logs keep under this topic. ``imported``: only imports write it."""

    def declare(kind: Kind) -> Kind:
        if topic in TOPICS:
            raise ValueError(f"{topic} is the topic of {TOPICS[topic].__name__}")
        TOPICS[topic] = kind
        if imported:
            IMPORTED.add(kind)
        return kind

    return declare
