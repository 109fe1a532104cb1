"""``poolbook log -evicted``: the runs that were ended before their jobs were done, and how many by which cause."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ...replay.imports import Places, is_imported
from ...replay.runs import evictions
from ...replay.runs.tables import hours, of_unknown, table
from ...replay.wording import counted, instant, interval
from ..tools.options import UsageError

if TYPE_CHECKING:
    from datetime import tzinfo

    from ...domain.log import Log
    from ...replay.listing import Wanted
    from ...replay.runs.run import JobRun
    from .windows import Window


def print_evictions(log: Log, what: Wanted | None, window: Window, zone: tzinfo, as_json: bool) -> int:
    """Print the evictions in a window, of `what` alone if it is given; returns the exit code.

    :raises UsageError: `what` is nothing that is evicted
    """
    try:
        evictions.checked(what)
    except ValueError as error:
        raise UsageError(f"poolbook log -evicted: {error}") from None
    told = evictions.told(log, *window, evicted=True, zone=zone)
    runs = evictions.of(told.runs, what)
    place: Callable[[str], str] = Places(log).name if is_imported(log) else str
    shares = evictions.by_cause(runs)
    if as_json:
        found = {
            "evictions": [evictions.as_dict(run, place(run.stimulus)) for run in runs],
            "causes": [evictions.share_as_dict(share) for share in shares],
            "unknown": evictions.unknown_as_dict(told.unknown),
        }
        print(json.dumps(found, indent=2))
        return 0
    if runs:
        rows = [_row(run, zone, place(run.stimulus)) for run in runs]
        print("\n".join(table(("TIME", "JOB", "USER", "SLOT", "LOST", "CAUSE"), rows, right=(4,))))
        print()
    print("\n".join(_summary(runs, shares, window.words(zone))))
    for line in of_unknown(told.unknown):
        print(line)
    return 0


def _row(run: JobRun, zone: tzinfo, place: str) -> tuple[str, ...]:
    said = f" ({run.said.rstrip('.')})" if run.said else ""
    where = f" [{place}]" if place else ""
    lost = interval(run.lasted)
    return (instant(run.ended, zone), run.job, run.user, run.slot, lost, f"{run.cause.words}{said}{where}")


def _summary(runs: Sequence[JobRun], shares: Sequence[evictions.Share], when: str) -> Iterator[str]:
    lost = sum(run.lasted for run in runs)
    if not runs:
        yield f"There were no evictions{when}."
        return
    yield f"{counted(len(runs), 'eviction')}{when}: {hours(lost)} hours on slots were lost."
    rows = [(str(share.evictions), hours(share.lost), share.cause.words) for share in shares]
    yield from table(("COUNT", "HOURS", "CAUSE"), rows, right=(0, 1))
