"""The list of evictions, each with its job, slot, cost and cause, and their totals by cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ...domain.units import SECOND
from ..listing.members import StreamFilter
from ..narration.formatting import counted, interval, iso
from ..runs.imported_runs import UnknownRuns
from ..runs.job_run import ENDED, RUNNING, JobRun
from ..runs.run_end_causes import CAUSES, Cause

_STREAMS = {"cluster": "cluster", "slot": "slot", "machine": "machine", "submitter": "user"}
"""The streams by which evictions can be selected -> the attribute of a run with the stream's name."""


def check_stream(stream: StreamFilter | None) -> None:
    """Raise ValueError if the stream cannot have evictions."""
    if stream is not None and stream.stream.partition("/")[0] not in _STREAMS:
        raise ValueError(f"{stream.stream} has no evictions: give a job, cluster, slot, machine/NAME or submitter/NAME")


def runs_of_stream(runs: Iterable[JobRun], stream_filter: StreamFilter | None) -> list[JobRun]:
    """Return the runs of a job, a cluster, a slot, a machine or a user (default: all)."""
    if stream_filter is None:
        return list(runs)
    kind, _, name = stream_filter.stream.partition("/")
    if stream_filter.proc is not None:
        return [run for run in runs if run.job == f"{name}.{stream_filter.proc}"]
    return [run for run in runs if getattr(run, _STREAMS[kind]) == name]


class Share(NamedTuple):
    """The number of evictions with one cause, and the run time that they lost, in microseconds."""

    cause: Cause
    evictions: int
    lost: int


def by_cause(runs: Sequence[JobRun]) -> list[Share]:
    """Return the totals of evictions by cause, starting with the most costly cause."""
    shares = [
        Share(cause, len(cause_runs), sum(run.duration for run in cause_runs))
        for cause in CAUSES.values()
        if (cause_runs := [run for run in runs if run.cause is cause])
    ]
    return sorted(shares, key=lambda share: (-share.lost, -share.evictions, share.cause.name))


def as_dict(run: JobRun, place: str = "") -> dict[str, object]:
    """Return an eviction as a dict for JSON, with instants in ISO 8601 (UTC) and the lost time in seconds."""
    return {
        "at": iso(run.ended), "job": run.job, "user": run.user, "slot": run.slot, "machine": run.machine,
        "began": iso(run.began), "lost": run.duration / SECOND, "cause": run.cause.name, "words": run.cause.clause,
        "said": run.reason_text, "place": place, "stimulus": run.stimulus,
    }  # fmt: skip


def unknown_as_dict(unknown: UnknownRuns) -> dict[str, object]:
    """Return the totals of runs without known times as a dict for JSON, with the time in seconds."""
    return {"jobs": unknown.jobs, "seconds": unknown.time / SECOND, "silent": unknown.silent}


def share_as_dict(share: Share) -> dict[str, object]:
    """Return the totals of a cause as a dict for JSON, with the lost time in seconds."""
    cause = share.cause
    return {"cause": cause.name, "words": cause.clause, "count": share.evictions, "lost": share.lost / SECOND}


# Messages about runs whose end or time is not known.


def unknown_lines(unknown: UnknownRuns) -> Iterator[str]:
    """Yield a message if no record shows any run, and one if only a total is known for some runs."""
    if unknown.silent:
        yield (
            "No record of the log shows a run: import job event logs, the histories, SchedLogs or StartLogs of the "
            "time in question."
        )
    if unknown.jobs:
        jobs = counted(unknown.jobs, "job")
        yield (
            f"For {jobs}, the history contains only totals: {interval(unknown.time)} on slots, which are not "
            "counted here, because no record shows when and where."
        )


_OPEN: Final = {
    ENDED: ("its outcome is unknown, so its", "their outcomes are unknown, so their"),
    RUNNING: ("it had not ended at the end of the log, so its", "they had not ended at the end of the log, so their"),
}


def open_lines(runs: Iterable[JobRun]) -> Iterator[str]:
    """Yield a message about each kind of run whose time counts as neither good nor wasted."""
    outcomes = [run.outcome for run in runs]
    for outcome, text in _OPEN.items():
        count = outcomes.count(outcome)
        if count:
            yield f"{counted(count, 'run')}: {text[count > 1]} time is included only in TIME."
