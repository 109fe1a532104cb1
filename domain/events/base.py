"""What every event says, and the causes that it may name. The rules of this package stand in its ``__init__``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

Ad = dict[str, str]
"""Attribute -> expression text."""
ByProtocol = tuple[tuple[str, int, int, int], ...]
"""Of each protocol of URLs: files that were named, files that plugins moved, their bytes."""
Procs = tuple[tuple[int, int], ...]
"""Ascending, disjoint ranges of process numbers, both ends included."""

CAUSE_CODES: frozenset[str] = frozenset({
    # the pool and its machines
    "founded", "writer", "configured", "reconfigured", "evaluated", "published", "left", "answered", "polled",
    # slots
    "not_owner", "is_owner", "start_false", "run_benchmarks", "first_benchmarks", "benchmarks_done", "carved",
    "merged", "matched", "claimed", "match_timeout", "match_void", "activated", "local", "job_ended",
    "no_more_jobs", "worklife", "vacate_command", "retirement_over", "suspend", "continue", "preempt", "kill",
    "better_match", "retired_before", "better_match_gone", "better_match_refused", "better_match_taken",
    "claim_failed", "released", "deactivated", "unheard", "heard", "lease_over", "drain_command", "draining",
    "drained", "drain_over", "defrag", "defrag_cancel", "shutdown", "vacate_timeout", "claim_over", "machine_left",
    "start_backfill", "evict_backfill", "backfill_off", "client_started", "client_runs", "client_ended", "client_gone",
    "client_kept", "pslot_preemption",
    # jobs
    "submitted", "user_hold", "user_release", "user_remove", "user_edit", "user_vacate", "kill_timeout", "evicted",
    "exited", "execution_failed", "limit_exceeded", "lost", "held_by_machine", "not_expanded", "measured", "negotiated",
    "accounted", "granted", "suspend_command", "continue_command", "left_queue", "scheduled", "deferral_over",
    "deferral_missed", "transfer_failed", "invalid_schedule", "materialized", "job_duration", "execute_duration",
    "timer_remove", "timer_undefined", "periodic_hold", "periodic_release", "periodic_remove", "periodic_vacate",
    "system_periodic_hold", "system_periodic_release", "system_periodic_remove", "system_periodic_vacate",
    "evict_transform", "chirp", "notified", "mailed", "cooled_down",
    # a job that is to run at once in place of others
    "run_now", "coalesced", "now_lost", "now_late", "now_taken", "now_gone", "now_not_idle", "now_static", "now_apart",
    "now_unfit",
    # what was read of a real pool
    "reported", "read", "refused",
})  # fmt: skip
"""Every cause that an event may name; ``replay/narration/causes.txt`` has the words for each."""


class Event(Struct, frozen=True):
    """What every event says: when, why, and what made the pool decide."""

    at: int  #: when, in microseconds since the epoch (UTC)
    cause: str  #: why: one of `CAUSES`
    stimulus: str  #: the id of the input that made the pool decide; for an import: source and line, "3:1201"

    @property
    def stream(self) -> str:
        raise TypeError(f"{type(self).__name__} is no kind of event: it belongs to no stream")


LoggedEvent = tuple[int, Event]
"""An event with its position in the log."""


class MachineEvent(Event, frozen=True):
    """Of one machine."""

    machine: str  #: the machine's name

    @property
    def stream(self) -> str:
        return f"machine/{self.machine}"


class SlotEvent(Event, frozen=True):
    """Of one slot."""

    slot: str  #: the slot's name, as slot1@host

    @property
    def stream(self) -> str:
        return f"slot/{self.slot}"


class ClusterEvent(Event, frozen=True):
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
