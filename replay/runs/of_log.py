"""Read the runs in any log: a pool's own log, or an import of HTCondor files.

In a pool's log, a run starts with a ``JobActivated`` and ends with a ``JobExited``. In an import, several daemons
record the same start or end in different forms. ``pool_events`` replaces these records with one event of these kinds,
so that the same fold can read both.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from ...domain import events as e
from ...domain.names import JobId
from ...domain.ports.log import EventStore
from ...domain.state.job_ad import quoted
from ..forensics.imported_log import is_imported
from ..narration.formatting import EVER
from .imported_runs import ImportedRuns, UnknownRuns
from .job_run import COMPLETED, EVICTED, RUNNING, JobRun
from .native_runs import own_runs

_OUTCOMES = {COMPLETED: "exited", EVICTED: "evicted"}
_SHARED = (e.SlotTransitioned, e.SlotCreated, e.SlotDestroyed)
"""The kinds of events that have the same form in imports and in pools' logs."""


class Runs(NamedTuple):
    """The runs in a log between two instants (microseconds), and the totals of runs without known times."""

    runs: list[JobRun]
    unknown: UnknownRuns


def runs_of(log: EventStore, since: int = 0, until: int = EVER, *, evicted: bool = False, zone: tzinfo = UTC) -> Runs:
    """Return the runs that overlap the time between two instants, sorted by end. With `evicted`, return only runs that
    were evicted in this time. Times in texts are in `zone`."""
    unknown = UnknownRuns()
    if is_imported(log):
        imported_runs = ImportedRuns(log, since, until, zone)
        runs, unknown = imported_runs.runs(), imported_runs.unknown
    else:
        runs = [run for run in own_runs(log.read()) if run.began < until and run.ended >= since]
    if evicted:
        runs = [run for run in runs if run.outcome == EVICTED and since <= run.ended < until]
    return Runs(runs, unknown)


def pool_events(log: EventStore) -> Iterator[tuple[int, e.Event]]:
    """Yield a log's events with their positions. For an import, yield its runs and slots as a pool's kinds of events,
    numbered chronologically; a run's events have the locations of the records of its start and end."""
    if not is_imported(log):
        yield from log.read()
        return
    runs = sorted(ImportedRuns(log).runs(), key=attrgetter("began"))
    users: dict[str, str] = {}
    events: list[tuple[e.Event, JobRun | None]] = []
    for run in runs:
        if users.get(run.cluster) != run.user:
            users[run.cluster] = run.user
            events.append((_submission(run, runs), None))
        events += [(event, run) for event in _events_of(run)]
    events += [(event, None) for _, event in log.read() if isinstance(event, _SHARED)]
    keys: dict[int, str] = {}
    for position, (event, is_own) in enumerate(sorted(events, key=lambda pair: pair[0].at), 1):
        if isinstance(event, e.JobActivated):
            keys[id(is_own)] = str(position)
        yield position, replace(event, key=keys[id(is_own)]) if isinstance(event, e.JobExited) else event


def _submission(first_run: JobRun, runs: list[JobRun]) -> e.Event:
    """Return a submission of a cluster at its first run's start, with the minimum number of jobs that it must have."""
    count = max(JobId.parse(run.job).proc for run in runs if run.cluster == first_run.cluster) + 1
    ad = {"User": quoted(first_run.user), "AcctGroup": quoted(first_run.group)}
    return e.ClusterSubmitted(
        first_run.began, "reported", first_run.begun, int(first_run.cluster), first_run.user, ad, count, (), "Idle"
    )


def _events_of(run: JobRun) -> Iterator[e.Event]:
    job = JobId.parse(run.job)
    yield e.JobActivated(run.began, "reported", run.begun, *job, run.slot, "")
    if run.outcome != RUNNING:
        cause = run.cause.name if run.outcome == EVICTED else "reported"
        changes = {"HoldReason": quoted(run.reason_text)} if run.reason_text else {}
        outcome = _OUTCOMES.get(run.outcome, "")
        at = max(run.began, run.ended)
        yield e.JobExited(at, cause, run.stimulus, *job, run.slot, "", outcome, "", "", changes, ended=run.ended)
