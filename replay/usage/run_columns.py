"""What is said of runs whose ends or instants are not known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ..narration.formatting import counted, interval
from ..runs.imported_runs import UnknownRuns
from ..runs.job_run import ENDED, RUNNING, JobRun


def of_unknown(unknown: UnknownRuns) -> Iterator[str]:
    """What is said of runs of which only a total is known, if there are any; or that no run is known at all."""
    if unknown.silent:
        yield (
            "No record of the log tells of a run: import job event logs, the histories, SchedLogs or StartLogs of the "
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


def of_open(runs: Iterable[JobRun]) -> Iterator[str]:
    """What is said of runs whose time is neither good nor wasted."""
    outcomes = [run.outcome for run in runs]
    for outcome, words in _OPEN.items():
        count = outcomes.count(outcome)
        if count:
            yield f"{counted(count, 'run')}: {words[count > 1]} time is in TIME alone."
