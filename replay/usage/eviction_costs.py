"""List evictions with their jobs, slots, costs and causes, and count them by cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ...domain.units import SECOND
from ..listing import StreamFilter
from ..narration.formatting import counted, interval, iso
from ..runs.imported_runs import UnknownRuns
from ..runs.job_run import ENDED, RUNNING, JobRun
from ..runs.run_end_causes import CAUSES, Cause

_STREAMS = {"cluster": "cluster", "slot": "slot", "machine": "machine", "submitter": "user"}
"""A kind of stream -> the attribute of a run that selects its evictions."""


def check_stream(stream: StreamFilter | None) -> None:
    """Raise ValueError if a stream has no evictions."""
    if stream is not None and stream.stream.partition("/")[0] not in _STREAMS:
        raise ValueError(f"{stream.stream} has no evictions: give a job, cluster, slot, machine/NAME or submitter/NAME")


def runs_of_stream(runs: Iterable[JobRun], stream_filter: StreamFilter | None) -> list[JobRun]:
    """Return the runs of a job, cluster, slot, machine or user."""
    if stream_filter is None:
        return list(runs)
    kind, _, name = stream_filter.stream.partition("/")
    if stream_filter.proc is not None:
        return [run for run in runs if run.job == f"{name}.{stream_filter.proc}"]
    return [run for run in runs if getattr(run, _STREAMS[kind]) == name]


class Share(NamedTuple):
    """The number of evictions with a cause, and their cost in microseconds."""

    cause: Cause
    evictions: int
    lost: int


def by_cause(runs: Sequence[JobRun]) -> list[Share]:
    """Return the evictions by cause, the most expensive cause first."""
    shares = [
        Share(cause, len(cause_runs), sum(run.lasted for run in cause_runs))
        for cause in CAUSES.values()
        if (cause_runs := [run for run in runs if run.cause is cause])
    ]
    return sorted(shares, key=lambda share: (-share.lost, -share.evictions, share.cause.name))


def as_dict(run: JobRun, place: str = "") -> dict[str, object]:
    """Return an eviction as JSON-compatible values: instants in ISO 8601 (UTC), the lost time in seconds."""
    return {
        "at": iso(run.ended), "job": run.job, "user": run.user, "slot": run.slot, "machine": run.machine,
        "began": iso(run.began), "lost": run.lasted / SECOND, "cause": run.cause.name, "words": run.cause.words,
        "said": run.reason_text, "place": place, "stimulus": run.stimulus,
    }  # fmt: skip


def unknown_as_dict(unknown: UnknownRuns) -> dict[str, object]:
    """Return the totals without known times for programs: time in seconds; whether no record shows a run."""
    return {"jobs": unknown.jobs, "seconds": unknown.time / SECOND, "silent": unknown.silent}


def share_as_dict(share: Share) -> dict[str, object]:
    """Return a cause's share as JSON-compatible values, the lost time in seconds."""
    cause = share.cause
    return {"cause": cause.name, "words": cause.words, "count": share.evictions, "lost": share.lost / SECOND}


# What is said of runs whose ends or instants are not known.


def unknown_lines(unknown: UnknownRuns) -> Iterator[str]:
    """Yield lines about runs of which only a total is known, or about a log without runs."""
    if unknown.silent:
        yield (
            "No record of the log shows a run: import job event logs, the histories, SchedLogs or StartLogs of the "
            "time in question."
        )
    if unknown.jobs:
        jobs = counted(unknown.jobs, "job")
        yield (
            f"Of {jobs} the history has totals alone: {interval(unknown.time)} on slots, of which no record says "
            "when and where, are not counted here."
        )


_OPEN: Final = {
    ENDED: ("how it ended is not known; its", "how they ended is not known; their"),
    RUNNING: ("it had not ended where the log ends; its", "they had not ended where the log ends; their"),
}


def open_lines(runs: Iterable[JobRun]) -> Iterator[str]:
    """Yield lines about runs whose time is neither good nor wasted."""
    outcomes = [run.outcome for run in runs]
    for outcome, text in _OPEN.items():
        count = outcomes.count(outcome)
        if count:
            yield f"{counted(count, 'run')}: {text[count > 1]} time is in TIME alone."
