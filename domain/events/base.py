"""The base classes of events, event causes, and the table of topics. ``__init__`` states the rules of this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

Ad = dict[str, str]
"""A ClassAd: attribute -> expression text."""
ByProtocol = tuple[tuple[str, int, int, int], ...]
"""For each URL protocol: its name, the files named, the files transferred by plugins, and their bytes."""
Procs = tuple[tuple[int, int], ...]
"""Ascending, disjoint ranges of process numbers; both ends are included."""

CAUSE_CODES: frozenset[str] = frozenset({
    # the pool and its machines
    "founded", "writer", "configured", "reconfigured", "evaluated", "published", "left", "answered", "polled",
    "denied", "schedd_cron",
    # roles with separate logs
    "sent", "followed", "rejected",
    # several managers
    "had_started", "is_primary", "no_active_manager", "active_manager_heard", "higher_priority_heard", "elected",
    "manager_silent", "replicated", "conflicted", "withheld", "turned_off", "turned_on",
    # slots
    "not_owner", "is_owner", "start_false", "run_benchmarks", "first_benchmarks", "benchmarks_done", "carved",
    "merged", "matched", "claimed", "match_timeout", "match_void", "jobs_limit", "activated", "local", "job_ended",
    "no_more_jobs", "worklife", "vacate_command", "retirement_over", "suspend", "continue", "preempt", "kill",
    "better_match", "retired_before", "better_match_gone", "better_match_refused", "better_match_taken",
    "claim_failed", "released", "deactivated", "unheard", "heard", "lease_over", "flocked", "drain_command", "draining",
    "drained", "drain_over", "defrag", "defrag_cancel", "slots_changed", "shutdown", "vacate_timeout", "claim_over",
    "machine_left",
    "start_backfill", "evict_backfill", "backfill_off", "client_started", "client_runs", "client_ended", "client_gone",
    "client_kept", "pslot_preemption", "device_failed",
    # jobs
    "submitted", "user_hold", "user_release", "user_remove", "user_edit", "user_vacate", "kill_timeout", "evicted",
    "exited", "execution_failed", "limit_exceeded", "lost", "held_by_machine", "not_expanded", "measured", "negotiated",
    "accounted", "granted", "suspend_command", "continue_command", "left_queue", "scheduled", "deferral_over",
    "deferral_missed", "suspended_early", "transfer_failed", "invalid_schedule", "materialized", "job_duration",
    "execute_duration", "timer_remove", "timer_undefined", "periodic_hold", "periodic_release", "periodic_remove",
    "periodic_vacate",
    "system_periodic_hold", "system_periodic_release", "system_periodic_remove", "system_periodic_vacate",
    "evict_transform", "chirp", "notified", "mailed", "cooled_down",
    "checkpoint_cleanup", "noop",
    # condor_now
    "run_now", "coalesced", "now_lost", "now_late", "now_taken", "now_gone", "now_not_idle", "now_static", "now_apart",
    "now_unfit",
    # imported records
    "reported", "read", "refused",
})  # fmt: skip
"""All causes of events, described in ``replay/narration/causes.txt``."""


class Event(Struct, frozen=True):
    """The fields of all events: the time, the cause, and the stimulus."""

    at: int  #: when it happened, in microseconds since the epoch (UTC)
    cause: str  #: why it happened; one of `CAUSES`
    stimulus: str  #: the id of the stimulus that the pool decided; in an import, source and line: "3:1201"

    @property
    def stream(self) -> str:
        raise TypeError(f"{type(self).__name__} is not a kind of event, so it has no stream")


LoggedEvent = tuple[int, Event]
"""An event with its log position."""


class MachineEvent(Event, frozen=True):
    """An event about one machine."""

    machine: str  #: the machine's name

    @property
    def stream(self) -> str:
        return f"machine/{self.machine}"


class SlotEvent(Event, frozen=True):
    """An event about one slot."""

    slot: str  #: the slot's name, such as slot1@host

    @property
    def stream(self) -> str:
        return f"slot/{self.slot}"


class ClusterEvent(Event, frozen=True):
    """An event about jobs of one cluster."""

    cluster: int  #: the cluster's number

    @property
    def stream(self) -> str:
        return f"cluster/{self.cluster}"


TOPICS: dict[str, type[Event]] = {}
"""The short name of each kind of event in a log. A released topic is never used for another kind."""
TOPIC_OF: dict[type[Event], str] = {}
IMPORTED: set[type[Event]] = set()
"""The kinds of events that only imports write."""
Kind = TypeVar("Kind", bound=type[Event])


def event(topic: str, imported: bool = False) -> Callable[[Kind], Kind]:
    """Declare a kind of event with this topic. ``imported``: whether only imports write it."""

    def declare(kind: Kind) -> Kind:
        if topic in TOPICS:
            raise ValueError(f"{topic} is already the topic of {TOPICS[topic].__name__}")
        TOPICS[topic], TOPIC_OF[kind] = kind, topic
        if imported:
            IMPORTED.add(kind)
        return kind

    return declare
