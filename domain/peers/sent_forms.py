"""The events that a role sends to a peer, and the form in which the peer reads them.

The form depends only on the event and the peer's number, so that a peer that reads an entry again reads the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from .. import events as e
from ..events.base import TOPIC_OF
from ..fold import machine_fold
from ..names import JOBS_PER_ACCESS_POINT, JobId
from ..state.job_ad import EXPIRATION
from ..state.peers import ACCESS_POINT, EXECUTION_POINT, MANAGER

Form = Callable[[Any, int], e.Event | None]
"""Returns the form of an event for a peer with a number, or None if the event does not concern the peer."""


def numbered(job: str, number: int) -> str:
    """Return a job's id in the manager's log, given its access point's number."""
    cluster, proc = JobId.parse(job)
    return str(JobId(cluster + number * JOBS_PER_ACCESS_POINT, proc))


def _own_number(job: str, number: int) -> str | None:
    """Return the id of a job at its access point, or None if the job belongs to another one."""
    cluster, proc = JobId.parse(job)
    owner, cluster = divmod(cluster, JOBS_PER_ACCESS_POINT)
    return str(JobId(cluster, proc)) if owner == number else None


def _unchanged(event: e.Event, number: int) -> e.Event:
    # Evidence is in the sender's log, at a position that means nothing in the receiver's.
    return replace(event, evidence=0) if getattr(event, "evidence", 0) else event


def _of_edit(event: e.JobsEdited, number: int) -> e.Event:
    return e.JobsEdited(event.at, event.cause, event.stimulus, event.cluster, event.procs, event.changes)


def _of_signal(event: e.JobSignalled, number: int) -> e.Event | None:
    """Return the signal, unless it was copied from the execution point."""
    return None if event.until else _unchanged(event, number)


def _of_running(event: e.JobActivated, number: int) -> e.Event:
    procs = ((event.proc, event.proc),)
    return e.JobsTransitioned(
        event.at, event.cause, event.stimulus, event.cluster, procs, "activate", "Idle", "Running", {}
    )


def _of_exit(event: e.JobExited, number: int) -> e.Event | None:
    """Return the job's transition. A job that cools down is reported when it can be matched again."""
    if not event.row or EXPIRATION in event.changes:
        return None
    procs = ((event.proc, event.proc),)
    return e.JobsTransitioned(
        event.at, event.cause, event.stimulus, event.cluster, procs, event.row, event.source, event.target,
        event.changes, left=event.left, reasons_kept=event.reasons_kept,
    )  # fmt: skip


def _of_end_of_cool_down(event: e.JobCooledDown, number: int) -> e.Event:
    procs = ((event.proc, event.proc),)
    return e.JobsTransitioned(
        event.at, event.cause, event.stimulus, event.cluster, procs, "evict", "Running", "Idle", {}
    )


def _of_cycle(event: e.CycleHeld, number: int) -> e.Event | None:
    """Return the cycle's results for the jobs of one access point."""
    matches = [
        replace(match, job=own) for match in event.matches if (own := _own_number(match.job, number)) is not None
    ]
    unmatched = [
        replace(each, job=own) for each in event.unmatched if (own := _own_number(each.job, number)) is not None
    ]
    if not matches and not unmatched:
        return None
    regrouped = [own for job in event.regrouped if (own := _own_number(job, number)) is not None]
    return e.CycleHeld(
        event.at, event.cause, event.stimulus, tuple(matches), tuple(unmatched), offset=event.offset,
        rules=event.rules, negotiator=event.negotiator, regrouped=tuple(regrouped),
    )  # fmt: skip


_JOBS_RUN: Final = {e.JobActivated, e.JobExited, e.CycleHeld}
FORMS: Final[Mapping[tuple[str, str], Mapping[type[e.Event], Form]]] = {
    (EXECUTION_POINT, MANAGER): dict.fromkeys(machine_fold.FOLDS.keys() - _JOBS_RUN, _unchanged),
    (EXECUTION_POINT, ACCESS_POINT): dict.fromkeys(
        (
            e.ClaimGranted, e.ClaimRejected, e.ClaimEnded, e.ClaimFlagged, e.SlotTransitioned, e.SlotAdChanged,
            e.SlotDestroyed, e.StarterSignalled, e.RunReported,
        ),
        _unchanged,
    ),
    (ACCESS_POINT, MANAGER): {
        **dict.fromkeys(
            (
                e.ClusterSubmitted, e.JobsMaterialized, e.FactoryTransitioned, e.JobsTransitioned, e.JobsDeferred,
                e.MatchVoided, e.FlockingChanged,
            ),
            _unchanged,
        ),
        e.JobsEdited: _of_edit,
        e.JobActivated: _of_running,
        e.JobExited: _of_exit,
        e.JobCooledDown: _of_end_of_cool_down,
    },
    (ACCESS_POINT, EXECUTION_POINT): {
        **dict.fromkeys((e.ClaimRequested, e.ClaimCommanded, e.JobActivated), _unchanged),
        e.JobSignalled: _of_signal,
        e.JobsEdited: _of_edit,
    },
    (MANAGER, ACCESS_POINT): {e.CycleHeld: _of_cycle},
    (MANAGER, EXECUTION_POINT): dict.fromkeys((e.MatchNotified, e.PeerCommanded), _unchanged),
    (MANAGER, MANAGER): dict.fromkeys(
        (e.SubmitterSet, e.SubmittersReset, e.SubmitterDeleted, e.DaemonsSwitched), _unchanged
    ),
}  # fmt: skip
"""The events that a role sends to another role, each with its form, by the roles of the sender and the receiver."""


def encoded(event: e.Event) -> tuple[str, bytes]:
    """Return an event's topic and its JSON."""
    return TOPIC_OF[type(event)], msgspec.json.encode(event)


def next_digest(digest: str, version: int, positions: tuple[int, ...], events: tuple[e.Event, ...]) -> str:
    """Return the digest of an outbox after an entry, from the digest before it."""
    hasher = sha256(f"{digest} {version} {positions}".encode())
    for event in events:
        topic, fields = encoded(event)
        hasher.update(f"\n{topic} {len(fields)} ".encode() + fields)
    return hasher.hexdigest()
