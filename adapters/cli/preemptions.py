"""``poolbook audit -preemptions``: for whom runs were evicted, whether that one used the slot, and what was lost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...replay.narration.wording import counted, instant, interval
from ..condor_tools.layout import text_table
from ..condor_tools.terminal import folded, width_of

if TYPE_CHECKING:
    from datetime import tzinfo

    from ...replay.usage.preemptions import Preemption
    from ..runtime.queries import Queries

_HEADS = ("TIME", "JOB", "USER", "SLOT", "LOST", "CAUSE", "FOR", "USED")


def print_preemptions(queries: Queries, zone: tzinfo, as_json: bool) -> int:
    """Print the evictions of a log; returns the exit code."""
    from ...replay.usage import preemptions as told

    found = queries.preemptions()
    if as_json:
        totals = told.totals(found)
        whole = {
            "evictions": [told.as_dict(one) for one in found],
            "lost_core_seconds": totals.lost / told.SECOND,
            "unused": totals.unused,
            "in_vain_core_seconds": totals.in_vain / told.SECOND,
        }
        print(json.dumps(whole, indent=2))
        return 0
    width = width_of()
    if found:
        for line in text_table(_HEADS, [_row(one, zone) for one in found], right=(4,)):
            print(folded(line, width, 4))
        print()
    for line in _summary(found):
        print(folded(line, width))
    return 0


def _row(one: Preemption, zone: tzinfo) -> tuple[str, ...]:
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


def _summary(found: Sequence[Preemption]) -> Iterator[str]:
    from ...replay.usage.preemptions import totals

    if not found:
        yield "There were no evictions."
        return
    sums = totals(found)
    yield f"{counted(sums.evictions, 'eviction')}: {interval(sums.lost)} of cores were lost."
    if sums.unused:
        vain = interval(sums.in_vain)
        yield f"In vain: {sums.unused:,}, which lost {vain}. Those whom they were for did not use the slot."
