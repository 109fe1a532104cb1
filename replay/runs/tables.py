"""How runs are shown to people: columns, hours, and what is said of time that is known in total only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ..wording import counted
from .imported import Unknown


def hours(microseconds: int) -> str:
    """An amount of time in hours; of less than six minutes with four decimals."""
    amount = microseconds / 3_600_000_000
    return f"{amount:,.2f}" if not microseconds or amount >= 0.1 else f"{amount:.4f}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> Iterator[str]:
    """The lines of a table. `right`: the numbers of the columns that end in line."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for cells in (heads, *rows):
        padded = (
            f"{cell:>{width}}" if number in right else f"{cell:<{width}}"
            for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        yield "  ".join(padded).rstrip()


def of_unknown(unknown: Unknown) -> Iterator[str]:
    """What is said of runs of which only a total is known, if there are any; or that no run is known at all."""
    if unknown.silent:
        yield (
            "No record of the log tells of a run: import job event logs, the histories, SchedLogs or StartLogs of the "
            "time in question."
        )
    if unknown.jobs:
        jobs = counted(unknown.jobs, "job")
        yield (
            f"Of {jobs} the history has totals alone: {hours(unknown.time)} hours on slots, of which no record says "
            "when and where, are not counted here."
        )
