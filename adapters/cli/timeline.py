"""``poolbook timeline``: what slots and jobs did over time, as rows of characters or as an HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...replay.narration.formatting import instant, interval
from ..condor_tools.options import ToolError, UsageError, command_table, parse
from ..condor_tools.terminal import print_chart_row, width_of, wrap_text
from ..runtime.queries import Queries
from .common import selected_log

if TYPE_CHECKING:
    from datetime import tzinfo

    from ...replay.accounts.intervals import SlotInterval
    from ...replay.accounts.timeline import TimelineRow

COMMAND = command_table("timeline")
_WIDTH: Final = 100  #: the width of a timeline that is not printed to a terminal
_LEAST_CELLS: Final = 20
_CHARACTERS: Final = {
    "goodput": "#", "badput": "x", "running": ">", "undetermined": "?", "suspended": "s", "claimed": "c",
    "preempting": "p", "matched": "m", "unclaimed": ".", "owner": "o", "drained": "d", "backfill": "b", "unknown": "~",
    "idle": "-", "held": "h", "ended": "=",
}  # fmt: skip
_ROLES: Final = {"#": "good", ">": "good", "x": "bad", "h": "bad", "p": "bad"} | dict.fromkeys("?scod-", "waits")
"""The colours of the characters, as in the other tables."""


def timeline(argv: Sequence[str]) -> int:
    from ...replay.accounts.timeline import POOL, UnknownSubjectError, timeline
    from ..machine.local_time import local_time
    from .time_window import window_of

    arguments = parse(COMMAND, argv)
    if len(arguments.words) > 1:
        names = " ".join(arguments.words)
        raise UsageError(f"poolbook timeline {names}: more than one name; give one job, slot or user, or POOL")
    subject, zone = (arguments.words or [POOL])[0], local_time()
    with Queries(selected_log(arguments)) as queries:
        window = window_of("timeline", arguments, "from", "to", queries.log)
        try:
            rows = timeline(queries.log, subject, *window)
        except UnknownSubjectError as error:
            raise ToolError(f"poolbook timeline: {error}; `poolbook timeline` shows all slots") from None
    if not rows:
        print(f"There were no slots{window.words(zone)}.")
        return 0
    begin = min(part.begin for row in rows for part in row.intervals)
    end = max(part.end for row in rows for part in row.intervals)
    if arguments.has("html"):
        from ...replay.accounts.timeline_page import page

        path = Path(arguments.value("html"))
        try:
            path.write_text(page(rows, subject), encoding="utf-8")
        except OSError as error:
            problem = f"{path} cannot be written: {error.strerror or error}"
            raise ToolError(f"poolbook timeline -html: {problem}; give another file") from None
        print(f"Wrote {path}: {len(rows):,} rows from {instant(begin, zone)} to {instant(end, zone)}.")
        return 0
    _print_chart(rows, begin, end, zone)
    if rows[0].name == subject and rows[0].intervals[0].job:
        print()
        for line in _steps(rows[0].intervals, zone):
            print(wrap_text(line, width_of(), 4))
    return 0


def _print_chart(rows: Sequence[TimelineRow], begin: int, end: int, zone: tzinfo) -> None:
    names_width = max(len(row.name) for row in rows) + 2
    cell_count = max(_LEAST_CELLS, (width_of() or _WIDTH) - names_width)
    step = -(-(end - begin) // cell_count)
    print(f"{instant(begin, zone)} to {instant(end, zone)}; each character is {interval(step)}")
    kinds: set[str] = set()
    for row in rows:
        cells = list(_cells(row.intervals, begin, end, step))
        kinds.update(cells)
        characters = "".join(_CHARACTERS.get(kind, " ") for kind in cells)
        print_chart_row(f"{row.name:{names_width}}", characters.rstrip(), _ROLES)
    legend = "  ".join(f"{character} {kind}" for kind, character in _CHARACTERS.items() if kind in kinds)
    print(wrap_text(legend, width_of()))


def _cells(intervals: Sequence[SlotInterval], begin: int, end: int, step: int) -> Iterator[str]:
    """Yield the class with the most time in each step; an empty string if the row has no interval there."""
    number = 0
    for at in range(begin, end, step):
        until = min(at + step, end)
        times: Counter[str] = Counter()
        while number < len(intervals) and intervals[number].begin < until:
            part = intervals[number]
            times[part.kind] += min(part.end, until) - max(part.begin, at)
            if part.end > until:
                break
            number += 1
        yield times.most_common(1)[0][0] if times else ""


def _steps(intervals: Sequence[SlotInterval], zone: tzinfo) -> Iterator[str]:
    """Yield a line for each state of a job."""
    causes = _causes()
    for part in intervals:
        where = (
            f" on {part.slot} ({part.state}/{part.activity})" if part.state else f" on {part.slot}" if part.slot else ""
        )
        why = f": {causes[part.cause]}" if part.cause else ""
        yield f"{instant(part.begin, zone)}  {part.kind} for {interval(part.end - part.begin)}{where}{why}"


def _causes() -> Mapping[str, str]:
    from ...replay.runs.run_end_causes import CAUSES

    return {name: cause.clause for name, cause in CAUSES.items()}
