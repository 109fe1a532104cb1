"""Runs that were ended before their jobs were done.

``poolbook log -evicted`` lists them, and how many by which cause; ``poolbook audit -preemptions`` for whom they were
evicted, whether that one used the slot, and what was lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...domain.units import SECOND
from ...replay.narration.formatting import counted, in_part, instant, interval
from ...replay.usage import eviction_costs
from ...replay.usage.run_columns import of_unknown
from ..condor_tools.cells import length_of
from ..condor_tools.layout import text_table
from ..condor_tools.options import UsageError
from ..condor_tools.terminal import folded, width_of

if TYPE_CHECKING:
    from datetime import tzinfo

    from ...replay.listing import StreamFilter
    from ...replay.runs.job_run import JobRun
    from ...replay.usage.preemptions import Preemption
    from ..runtime.queries import Queries
    from .time_window import Window


def print_evictions(queries: Queries, what: StreamFilter | None, window: Window, zone: tzinfo, as_json: bool) -> int:
    """Print the evictions in a window, of `what` alone if it is given; returns the exit code.

    :raises UsageError: `what` is nothing that is evicted
    """
    try:
        eviction_costs.checked(what)
    except ValueError as error:
        raise UsageError(f"poolbook log -evicted: {error}") from None
    told = queries.runs(*window, zone, evicted=True)
    ended = eviction_costs.of(told.runs, what)
    runs = [run for run in ended if run.by_pool]
    apart = eviction_costs.by_cause([run for run in ended if not run.by_pool])
    place = queries.places() if queries.imported else str
    shares = eviction_costs.by_cause(runs)
    if as_json:
        found = {
            "evictions": [eviction_costs.as_dict(run, place(run.stimulus)) for run in runs],
            "causes": [eviction_costs.share_as_dict(share) for share in shares],
            "apart": [eviction_costs.share_as_dict(share) for share in apart],
            "unknown": eviction_costs.unknown_as_dict(told.unknown),
        }
        print(json.dumps(found, indent=2))
        return 0
    width = width_of()
    if runs:
        rows = [_row(run, zone, place(run.stimulus)) for run in runs]
        for line in text_table(("TIME", "JOB", "USER", "SLOT", "LOST", "CAUSE"), rows, right=(4,)):
            print(_fitted(line, width))
        print()
    for line in (*_summary(runs, shares, window.words(zone)), *_apart(apart), *of_unknown(told.unknown)):
        print(folded(line, width))
    return 0


_INDENT = 4
"""How much deeper what is folded off a line goes on."""


def _fitted(line: str, width: int | None) -> str:
    """A line of the table, folded to the terminal's width, without the columns where it has to be."""
    if width is not None and len(line) > width:
        line = re.sub(r" {2,}", "  ", line)
    return folded(line, width, _INDENT)


def _row(run: JobRun, zone: tzinfo, place: str) -> tuple[str, ...]:
    said = f" ({in_part(run.said.rstrip('.'))})" if run.said else ""
    where = f" [{place}]" if place else ""
    lost = interval(run.lasted)
    return (instant(run.ended, zone), run.job, run.user, run.slot, lost, f"{run.cause.words}{said}{where}")


def _summary(runs: Sequence[JobRun], shares: Sequence[eviction_costs.Share], when: str) -> Iterator[str]:
    lost = sum(run.lasted for run in runs)
    if not runs:
        yield f"There were no evictions{when}."
        return
    yield f"{counted(len(runs), 'eviction')}{when}: {interval(lost)} on slots were lost."
    rows = [(str(share.evictions), length_of(share.lost), share.cause.words) for share in shares]
    yield from text_table(("COUNT", "TIME", "CAUSE"), rows, right=(0, 1))


def _apart(shares: Sequence[eviction_costs.Share]) -> Iterator[str]:
    """Say what the table leaves out, if there is any."""
    if shares:
        counts = " and ".join(f"{share.evictions:,} {share.cause.name}" for share in shares)
        yield f"Not counted: runs whose jobs were held or removed ({counts}; {interval(sum(s.lost for s in shares))})."


_HEADS = ("TIME", "JOB", "USER", "SLOT", "LOST", "CAUSE", "FOR", "USED")


def print_preemptions(queries: Queries, zone: tzinfo, as_json: bool) -> int:
    """Print the evictions of a log; returns the exit code."""
    from ...replay.usage import preemptions as told

    found = queries.preemptions()
    if as_json:
        totals = told.totals(found)
        whole = {
            "evictions": [told.as_dict(one) for one in found],
            "lost_core_seconds": totals.lost / SECOND,
            "unused": totals.unused,
            "in_vain_core_seconds": totals.in_vain / SECOND,
        }
        print(json.dumps(whole, indent=2))
        return 0
    width = width_of()
    if found:
        for line in text_table(_HEADS, [_preemption_row(one, zone) for one in found], right=(4,)):
            print(folded(line, width, 4))
        print()
    for line in _totals(found):
        print(folded(line, width))
    return 0


def _preemption_row(one: Preemption, zone: tzinfo) -> tuple[str, ...]:
    run = one.run
    whom = f"{one.whom} of {one.user}" if one.user and one.whom else one.whom or "?"
    return (
        instant(run.ended, zone), run.job, run.user, run.slot, interval(run.lasted), run.cause.name, whom, _used(one),
    )  # fmt: skip


def _used(one: Preemption) -> str:
    """Tell what became of what was freed; a dash where it was for no job."""
    if one.began:
        lasted = f" for {interval(one.lasted)}" if one.lasted else ""
        return f"{one.used}{lasted}" if one.user or one.lasted else one.used
    return one.used or "-"


def _totals(found: Sequence[Preemption]) -> Iterator[str]:
    from ...replay.usage.preemptions import totals

    if not found:
        yield "There were no evictions."
        return
    sums = totals(found)
    yield f"{counted(sums.evictions, 'eviction')}: {interval(sums.lost)} of cores were lost."
    if sums.unused:
        vain = interval(sums.in_vain)
        yield f"In vain: {sums.unused:,}, which lost {vain}. Those whom they were for did not use the slot."
