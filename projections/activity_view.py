"""The view of what happened in a pool: its load over time, and the findings, which are the events to report to users
and administrators.

Rows are only added, so views at a past time have those up to their position. A row of the load has the counts before
its event: they have not changed since the minute of the row before. Imported logs have no rows, because their events
are not in the order of their times.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from ..domain import events as e
from ..domain.events.handlers import bound_handlers
from ..domain.names import JobId
from ..domain.state.job_ad import STATUS_NUMBERS, unquoted
from .schema import insertion

MINUTE: Final = 60_000_000  #: the shortest time between two rows of the load, in microseconds
HOLD, EVICTION, PREEMPTION, MACHINE, REJECTION = "hold", "eviction", "preemption", "machine", "rejection"
"""The kinds of findings."""
BUSY: Final = "Busy"
_REPORTED: Final = "reported"  #: the cause of imported events
_COUNTED: Final = {
    **dict.fromkeys(("Running", "Suspended", "TransferringOutput"), "running"), "Idle": "idle", "Held": "held",
}  # fmt: skip
"""A job's status -> the column that counts it."""
_COLUMNS: Final = {STATUS_NUMBERS[status]: column for status, column in _COUNTED.items()}


def present_load(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the counts of a row of the load, for the current tables."""
    counts = {"idle": 0, "running": 0, "held": 0}
    for status, jobs in connection.execute("SELECT status, SUM(last - first + 1) FROM jobs GROUP BY status"):
        if status in _COLUMNS:
            counts[_COLUMNS[status]] += jobs
    busy, slots = connection.execute("SELECT TOTAL(activity=?), COUNT(*) FROM slots", (BUSY,)).fetchone()
    return {**counts, "busy": int(busy), "slots": slots}


def _count(procs: e.Procs) -> int:
    return sum(last - first + 1 for first, last in procs)


def _jobs_text(cluster: int, procs: e.Procs) -> str:
    """Return the id of the only job, or else the cluster's number."""
    return f"{cluster}.{procs[0][0]}" if _count(procs) == 1 else str(cluster)


class ActivityFold:
    """Folds a batch of events into the load and the findings; ``flush`` writes the new rows. The counts at the start of
    the batch are read from the tables when the first row needs them: once a minute in a pool that is being served."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        settings = connection.execute("SELECT settings FROM pool").fetchone()
        self._imported = settings is not None and '"Imported"' in settings[0]
        last = connection.execute("SELECT at FROM load ORDER BY position DESC LIMIT 1").fetchone()
        self._minute: int = -MINUTE if last is None else last[0]
        self._start: Mapping[str, int] | None = None
        self._changes = dict.fromkeys(("idle", "running", "held", "busy", "slots"), 0)
        self._activities: dict[str, str] = {}
        self._submitters: dict[str, str] = {}
        self._load: list[tuple[int, ...]] = []
        self._findings: list[tuple[object, ...]] = []
        self.handlers = bound_handlers(self)

    def on_founded(self, position: int, event: e.PoolFounded) -> None:
        self._imported = "Imported" in event.settings

    # The load

    def _change(self, position: int, at: int, **changes: int) -> None:
        if self._imported:
            return
        if at >= self._minute + MINUTE:
            self._minute = at - at % MINUTE
            self._start = present_load(self._connection) if self._start is None else self._start
            counts = [self._start[name] + change for name, change in self._changes.items()]
            self._load.append((position, self._minute, *counts))
        for name, change in changes.items():
            self._changes[name] += change

    def _move(self, position: int, event: e.ClusterEvent, jobs: int, source: str, target: str) -> None:
        before, after = _COUNTED.get(source, ""), _COUNTED.get(target, "")
        if before != after:
            self._change(
                position, event.at, **{name: jobs for name in (after,) if name}, **{before: -jobs} if before else {}
            )

    def on_submitted(self, position: int, event: e.ClusterSubmitted) -> None:
        if not event.factory:
            self._move(position, event, event.count, "", event.status)

    def on_materialized(self, position: int, event: e.JobsMaterialized) -> None:
        self._move(position, event, _count(event.procs), "", event.status)

    def on_moved(self, position: int, event: e.JobsTransitioned) -> None:
        self._move(position, event, _count(event.procs), event.source, event.target)
        if event.target == "Held":
            reason = unquoted(event.changes.get("HoldReason", ""))
            self._find(
                position,
                event,
                HOLD,
                event.cluster,
                _jobs_text(event.cluster, event.procs),
                reason,
                _count(event.procs),
            )

    def on_activated(self, position: int, event: e.JobActivated) -> None:
        self._move(position, event, 1, "Idle", "Running")

    def on_exited(self, position: int, event: e.JobExited) -> None:
        if event.target:
            self._move(position, event, 1, event.source or "Running", event.target)
        job = f"{event.cluster}.{event.proc}"
        if event.target == "Held":
            self._find(position, event, HOLD, event.cluster, job, unquoted(event.changes.get("HoldReason", "")))
        elif event.outcome != "exited" and event.target == "Idle":
            self._find(position, event, EVICTION, event.cluster, job, unquoted(event.changes.get("VacateReason", "")))

    def on_slot_created(self, position: int, event: e.SlotCreated) -> None:
        self._activities[event.slot] = ""
        self._change(position, event.at, slots=1)

    def on_slot_moved(self, position: int, event: e.SlotTransitioned) -> None:
        was_busy, activity = self._activity(event.slot) == BUSY, event.target.partition("/")[2]
        self._activities[event.slot] = activity
        if was_busy != (activity == BUSY):
            self._change(position, event.at, busy=-1 if was_busy else 1)

    def on_slot_destroyed(self, position: int, event: e.SlotDestroyed) -> None:
        self._change(position, event.at, slots=-1, busy=-(self._activity(event.slot) == BUSY))

    def _activity(self, slot: str) -> str:
        if slot not in self._activities:
            row = self._connection.execute("SELECT activity FROM slots WHERE name=?", (slot,)).fetchone()
            self._activities[slot] = "" if row is None else row[0]
        return self._activities[slot]

    # The findings

    def _find(
        self,
        position: int,
        event: e.Event,
        kind: str,
        cluster: int,
        subject: str,
        text: str,
        jobs: int = 1,
        user: str = "",
    ) -> None:
        if event.cause != _REPORTED and not self._imported:
            self._findings.append((position, event.at, kind, cluster, subject, jobs, user, event.cause, text))

    def on_claimed(self, position: int, event: e.ClaimMade) -> None:
        self._submitters[event.slot] = event.submitter

    def on_cycle(self, position: int, event: e.CycleHeld) -> None:
        for match in event.matches:
            for slot in match.preempts or ((match.slot,) if match.reason else ()):
                if slot not in self._submitters:
                    row = self._connection.execute("SELECT submitter FROM slots WHERE name=?", (slot,)).fetchone()
                    self._submitters[slot] = "" if row is None else row[0]
                cluster = JobId.parse(match.job).cluster
                self._find(position, event, PREEMPTION, cluster, slot, match.reason, user=self._submitters[slot])

    def on_machine_left(self, position: int, event: e.MachineLeft) -> None:
        self._find(position, event, MACHINE, 0, event.machine, "left", 0)

    def on_machine_expired(self, position: int, event: e.MachineExpired) -> None:
        if event.expired:
            self._find(position, event, MACHINE, 0, event.machine, "expired", 0)

    def on_refused(self, position: int, event: e.SubmissionRefused) -> None:
        self._find(position, event, REJECTION, event.cluster, event.job, event.reason, 0, event.user)

    def on_rejected(self, position: int, event: e.RequestsRejected) -> None:
        self._find(position, event, REJECTION, 0, event.address, event.text, 0, event.sender)

    def on_peer_rejected(self, position: int, event: e.PeerRejected) -> None:
        self._find(position, event, REJECTION, 0, event.peer, event.reason, 0)

    def flush(self) -> None:
        self._connection.executemany(insertion("load"), self._load)
        self._connection.executemany(insertion("findings"), self._findings)
